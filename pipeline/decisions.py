"""Decides which planned stages run, and says why: never ran, what changed since, which input was made anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.plan import PlannedStage
from pipeline.run_dir import RunDir
from stage import UsageError, sha256_file


@dataclass(frozen=True)
class Decision:
    """Whether a stage runs, and why or why not."""

    stage: PlannedStage
    run: bool
    reason: str


def decide(
    plan: Sequence[PlannedStage], run_dir: RunDir, selected: Sequence[str], forced: Sequence[str] = ()
) -> list[Decision]:
    """Whether each selected stage runs; a UsageError where one needs a stage that is neither selected nor current."""
    decisions: dict[str, Decision] = {}
    for stage in plan:
        decisions[stage.name] = _decide(stage, run_dir, decisions, stage.name in forced)
    for name in selected:
        for needed in decisions[name].stage.inputs if decisions[name].run else ():
            if needed not in selected and decisions[needed].run:
                reason = decisions[needed].reason
                raise UsageError(
                    f"{name}: its input '{needed}' is not current ({reason}); run it too: --stages {needed},{name}"
                )
    return [decisions[name] for name in selected]


def _decide(stage: PlannedStage, run_dir: RunDir, earlier: dict[str, Decision], forced: bool) -> Decision:
    manifest = run_dir.manifest(stage.name)
    if forced:
        return Decision(stage, True, "forced")
    if manifest is None:
        resumes = run_dir.work_fingerprint(stage.name) == stage.fingerprint
        return Decision(stage, True, "interrupted, resumes" if resumes else "never ran")
    if manifest["fingerprint"] != stage.fingerprint:
        reason = _why_changed(stage, run_dir.ingredients(manifest["fingerprint"]))
        resumes = run_dir.work_fingerprint(stage.name) == stage.fingerprint
        return Decision(stage, True, reason + ("; resumes" if resumes else ""))
    for name in stage.inputs:
        if earlier[name].run:
            return Decision(stage, True, f"input {name} runs")
        if _made_anew(name, manifest, run_dir):
            return Decision(stage, True, f"input {name} was made anew")
    return Decision(stage, False, "up to date")


def _made_anew(name: str, manifest: dict[str, Any], run_dir: RunDir) -> bool:
    """Whether an input was published again, with the same fingerprint, after this result was made from it."""
    used = [e["sha256"] for e in manifest["inputs"] if Path(e["path"]).parts[-2:] == (name, "manifest.json")]
    return used != [sha256_file(run_dir.path / name / "manifest.json")]


def _why_changed(stage: PlannedStage, before: dict[str, Any] | None) -> str:
    if before is None:
        return "published by an unknown plan"
    reasons = list(_differences(before, stage.ingredients))
    return reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    old, new = dict(_leaves(before["profile"])), dict(_leaves(now["profile"]))
    for key in [*new, *(k for k in old if k not in new)]:
        if old.get(key) != new.get(key):
            yield f"{key} changed {json.dumps(old.get(key))} -> {json.dumps(new.get(key))}"
    old_files, new_files = ({e["path"]: e for e in x["files"]} for x in (before, now))
    for path in [*new_files, *(p for p in old_files if p not in new_files)]:
        if old_files.get(path) != new_files.get(path):
            what = "changed" if path in old_files and path in new_files else "added" if path in new_files else "removed"
            yield f"input file {path} {what}"
    for name in dict.fromkeys([*now["inputs"], *before["inputs"]]):
        if before["inputs"].get(name) != now["inputs"].get(name):
            yield f"input {name} changed"
    if before["code"] != now["code"]:
        yield "code changed"


def _leaves(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """(dotted key, value) of everything in nested mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if not items:
        yield prefix, value
        return
    for key, inner in items:
        yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
