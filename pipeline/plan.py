"""Plans a run: everything that decides each stage's result, and the fingerprint of it.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.run_dir import RunDir
from pipeline.source import code_version
from pipeline.stages import STAGES, StageSpec
from stage import atomic_write, outcome, parser, sha256_file

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
    options = parser(__doc__)
    options.add_argument("--run-dir", type=Path, required=True, help="where profile.yaml and plan.json are written")
    options.add_argument("--profile", help="a profile's name or file; default: RUN_DIR/profile.yaml")
    options.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
                         help="override a value of the profile; may be repeated")  # fmt: skip
    options.add_argument("--launch", metavar="STAGE", help="print shell assignments that say how to start STAGE")
    args = options.parse_args(argv)
    return outcome(lambda: _main(args))


def _main(args: argparse.Namespace) -> int:
    # A queued job starts what was planned when it was submitted, even if the code has been edited since:
    # the run that submitted it holds the lock and waits for a result with that plan's fingerprint.
    as_planned = args.launch and not args.profile and not args.overrides and RunDir(args.run_dir).plan() is not None
    plan = _planned(args.run_dir, args.profile or args.run_dir / "profile.yaml", args.overrides, not as_planned)
    if args.launch:
        stage = _named(plan, args.launch)
        torchrun = int(stage.spec.torchrun)
        print(f"module={stage.spec.module} {torchrun=} nnodes={stage.nnodes} nproc_per_node={stage.nproc_per_node}")
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
