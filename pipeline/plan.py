"""Decides what a run has to do: fingerprints, what is up to date, and why the rest is not.

fingerprint(stage) = sha256 of {its sections of the profile, the fingerprints of its input stages,
                                its input files (size and content), the version of its code}

python -m pipeline.plan --profile tiny --run-dir runs/tiny     writes profile.yaml and plan.json (no-op if the same)
python -m pipeline.plan --run-dir runs/tiny --launch grpo      prints how to start it, for a shell: module=… nnodes=…
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.run_dir import RunDir
from pipeline.source import code_version
from pipeline.stages import STAGES, StageSpec
from stage import EXIT_USAGE, UsageError, atomic_write, sha256_file

if TYPE_CHECKING:
    from pipeline.config import Profile

HOW = ("parallel", "micro_batch_size", "recompute_activations", "save_interval")  # of a training stage
HASH_LIMIT_BYTES = 64 * 2**20  # larger input files are told apart by size and modification time


@dataclass(frozen=True)
class PlannedStage:
    """A stage with everything that decides its result."""

    spec: StageSpec
    inputs: tuple[str, ...]
    files: tuple[Path, ...]
    missing: tuple[str, ...]  # input files that the profile names and that are not there: "key: pattern"
    ingredients: dict[str, Any]
    fingerprint: str
    nproc_per_node: int
    nnodes: int

    @property
    def name(self) -> str:
        return self.spec.name

    def command(self, python: str, run_dir: Path) -> list[str]:
        """What starts this stage on one machine."""
        module = [self.spec.module, "--run-dir", str(run_dir)]
        if not self.spec.torchrun:
            return [python, "-m", *module]
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.nproc_per_node)]
        return [*torchrun, "-m", *module]


@dataclass(frozen=True)
class Decision:
    """Whether a stage runs, and why or why not."""

    stage: PlannedStage
    run: bool
    reason: str


def make_plan(profile: Profile, run_dir: RunDir, specs: Sequence[StageSpec] = STAGES) -> list[PlannedStage]:
    """All stages of a profile with their fingerprints, in running order."""
    raw = profile.raw()
    planned: dict[str, PlannedStage] = {}
    for spec in specs:
        inputs = spec.inputs(profile)
        entries, files, missing = _identify_files(spec, profile, run_dir)
        ingredients = {
            "stage": spec.name,
            "profile": {key: _deciding(raw[key]) for key in spec.sections},
            "inputs": {name: planned[name].fingerprint for name in inputs},
            "files": entries,
            "code": code_version(spec.module),
        }
        section = profile.training(spec.name)
        nproc, nnodes = (section.parallel.nproc_per_node, section.parallel.nnodes) if section else (1, 1)
        fingerprint = hashlib.sha256(canonical(ingredients).encode()).hexdigest()
        planned[spec.name] = PlannedStage(
            spec, inputs, tuple(files), tuple(missing), ingredients, fingerprint, nproc, nnodes
        )
    return list(planned.values())


def _deciding(section: object) -> object:
    """A section of the profile without what says how a result is computed, not which: work begun on eight GPUs goes on
    from its checkpoint on four."""
    if not isinstance(section, dict):
        return section
    return {key: value for key, value in section.items() if key not in HOW}


def canonical(value: object) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _identify_files(
    spec: StageSpec, profile: Profile, run_dir: RunDir
) -> tuple[list[dict[str, Any]], list[Path], list[str]]:
    """Identities of the input files, the files, and what is missing.

    A file that is gone since the stage was published (the raw pages after mining, say) keeps its recorded identity:
    the result made from it stays valid, and only a stage that has to run again misses it.
    """
    manifest = run_dir.manifest(spec.name)
    recorded = (run_dir.ingredients(manifest["fingerprint"]) or {}).get("files", []) if manifest else []
    entries: list[dict[str, Any]] = []
    files: list[Path] = []
    missing: list[str] = []
    for wanted in spec.files(profile):
        found = wanted.expand()
        files += found
        entries += [_identity(wanted.key, wanted.pattern, path) for path in found]
        if not found:
            missing.append(f"{wanted.key}: {wanted.pattern}")
            entries += [e for e in recorded if e["key"] == wanted.key and e["pattern"] == wanted.pattern]
    return entries, files, missing


def _identity(key: str, pattern: str, path: Path) -> dict[str, Any]:
    status = path.stat()
    entry: dict[str, Any] = {"key": key, "pattern": pattern, "path": str(path), "size": status.st_size}
    if status.st_size > HASH_LIMIT_BYTES:
        return entry | {"mtime_ns": status.st_mtime_ns}
    return entry | {"sha256": sha256_file(path)}


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


def write_plan(plan: Sequence[PlannedStage], profile: Profile, run_dir: RunDir) -> None:
    """Put profile.yaml and plan.json into the run directory, touching only what differs. Hold the lock to call this."""
    for stage in plan:
        _write_if_new(run_dir.path / ".plan" / f"{stage.fingerprint}.json", canonical(stage.ingredients))
    for name, text in _documents(plan, profile).items():
        _write_if_new(run_dir.path / name, text)


def is_written(plan: Sequence[PlannedStage], profile: Profile, run_dir: RunDir) -> bool:
    """Whether the run directory holds exactly this plan."""
    return all(_text(run_dir.path / name) == text for name, text in _documents(plan, profile).items())


def _documents(plan: Sequence[PlannedStage], profile: Profile) -> dict[str, str]:
    import yaml

    versions = {s.name: s.ingredients["code"] for s in plan}
    stages = {
        s.name: {"fingerprint": s.fingerprint, "inputs": list(s.inputs), "files": [str(p) for p in s.files]}
        for s in plan
    }
    code = hashlib.sha256(canonical(versions).encode()).hexdigest()
    return {
        "profile.yaml": yaml.safe_dump(profile.raw(), sort_keys=False, allow_unicode=True),
        "plan.json": json.dumps({"stages": stages, "code_version": code}, indent=2, ensure_ascii=False) + "\n",
    }


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def _write_if_new(path: Path, text: str) -> None:
    if _text(path) != text:
        atomic_write(path, text)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the plan of a run directory, or print how one of its stages is launched."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.plan", description=__doc__.partition("\n")[0])
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--profile", help="a profile's name or file; default: RUN_DIR/profile.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--launch", metavar="STAGE", help="print shell assignments that say how to start STAGE")
    args = parser.parse_args(argv)
    try:
        # A queued job starts what was planned when it was submitted, even if the code has been edited since:
        # the run that submitted it holds the lock and waits for a result with that plan's fingerprint.
        as_planned = args.launch and not args.profile and not args.overrides and RunDir(args.run_dir).plan() is not None
        plan = _planned(args.run_dir, args.profile or args.run_dir / "profile.yaml", args.overrides, not as_planned)
        if args.launch:
            stage = _named(plan, args.launch)
            torchrun = int(stage.spec.torchrun)
            print(f"module={stage.spec.module} {torchrun=} nnodes={stage.nnodes} nproc_per_node={stage.nproc_per_node}")
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


def _planned(path: Path, profile_name: str | Path, overrides: Sequence[str], write: bool) -> list[PlannedStage]:
    from pipeline.config import load_profile

    run_dir, profile = RunDir(path), load_profile(profile_name, overrides)
    plan = make_plan(profile, run_dir)
    if write and not is_written(plan, profile, run_dir):
        with run_dir.lock():
            write_plan(plan, profile, run_dir)
    return plan


def _named(plan: Sequence[PlannedStage], name: str) -> PlannedStage:
    from pipeline.stages import select

    return next(s for s in plan if s.name == select(name)[0])


if __name__ == "__main__":
    sys.exit(main())
