"""One execution of one stage: where it works, what it read and wrote, and the atomic publication of its result.

A run directory holds

    profile.yaml            the resolved profile, the only configuration a stage reads
    plan.json               {"stages": {name: {"fingerprint", "inputs": [stage], "files": [path]}}, "code_version"}
    <stage>/                a published result, with its manifest.json; never half-written
    .work/<stage>/          the stage at work: checkpoints to resume from, progress.json
    logs/<stage>.log        everything the stage printed
    tensorboard/<stage>/    its training curves

A stage works in `.work/<stage>` and publishes by one rename. Work begun under another fingerprint is thrown away;
work begun under the same one is resumed.
"""

import json
import os
import platform
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from stage.command import outcome, parser
from stage.errors import EXIT_REQUEUE, UsageError
from stage.files import atomic_write, lock, sha256_file
from stage.progress import Progress

if TYPE_CHECKING:
    from stage.section import Section

S = TypeVar("S", bound="Section")
LEFTOVERS = ("progress.json", "resume")  # of the work, no part of the result


class Preempted(Exception):
    """SIGTERM or SIGUSR1 arrived (`stage.preempted`) and the stage has saved what it needs to go on later."""


class Stage:
    """The running stage `name` of the run in `run_dir`.

    `rank` and `world_size` come from torchrun; only rank 0 publishes, prints progress and writes the manifest.
    Raises UsageError when the run directory holds no plan or an input stage was not published.
    """

    def __init__(self, name: str, run_dir: str | Path) -> None:
        self.name, self.run_dir = name, Path(run_dir)
        self.rank, self.world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.profile: dict[str, Any] = yaml.safe_load(_read(self.run_dir / "profile.yaml"))
        plan = json.loads(_read(self.run_dir / "plan.json"))
        self.plan: dict[str, Any] = plan["stages"][name]
        self.code_version: str = plan["code_version"]
        self.output, self.work = self.run_dir / name, self.run_dir / ".work" / name
        self.tensorboard = self.run_dir / "tensorboard" / name
        self.counts: dict[str, Any] = {"in": 0, "out": 0, "dropped": Counter()}
        self.metrics: dict[str, Any] = {}
        self.preempted = False
        self._files: list[Path] = [Path(p) for p in self.plan["files"]]
        self._began, self._started = time.monotonic(), time.time()
        if self.rank == 0:
            self._claim_work()

    @property
    def wall_seconds(self) -> float:
        """Since this start of the stage."""
        return time.monotonic() - self._began

    def section(self, key: str, model: type[S]) -> S:
        """The profile's section `key`."""
        return model.model_validate(self.profile[key])

    def input(self, stage: str) -> Path:
        """The published output directory of an earlier stage."""
        path = self.run_dir / stage
        if not (path / "manifest.json").is_file():
            raise UsageError(f"{self.name}: input stage '{stage}' is not published in {self.run_dir}; run it first")
        return path

    def read_file(self, path: str | Path) -> Path:
        """Note `path` as an input of this stage (its size and sha256 go to the manifest) and return it."""
        path = Path(path)
        if not path.is_file():
            raise UsageError(f"{self.name}: input file {path} does not exist")
        if path not in self._files:
            self._files.append(path)
        return path

    def drop(self, reason: str, n: int = 1) -> None:
        """Count `n` records that were left out because of `reason`."""
        self.counts["dropped"][reason] += n

    def progress(self, description: str, total: int | None, unit: str = "items", start: int = 0) -> Progress:
        """A progress display for one long step; silent on ranks other than 0."""
        file = self.work / "progress.json" if self.rank == 0 else None
        return Progress(f"{self.name}: {description}", total, unit, start, file, quiet=self.rank != 0)

    def publish(self) -> None:
        """Write manifest.json and make the working directory the stage's output, in one rename. Rank 0 only."""
        if self.rank != 0:
            return
        atomic_write(self.work / "manifest.json", json.dumps(self._manifest(), indent=2, ensure_ascii=False) + "\n")
        old = self.work.with_name(f"{self.name}.old")
        remove(old)
        if self.output.exists():
            os.rename(self.output, old)
        os.rename(self.work, self.output)
        # Not before: hashing a large model takes minutes, in which a kill must not cost the checkpoint to resume from.
        for leftover in (*(self.output / name for name in LEFTOVERS), old):
            remove(leftover)

    def _claim_work(self) -> None:
        mark = self.work / "fingerprint"
        if not mark.is_file() or mark.read_text() != self.plan["fingerprint"]:
            remove(self.work)
            remove(self.tensorboard)
            self.work.mkdir(parents=True)
            atomic_write(mark, self.plan["fingerprint"])

    def _manifest(self) -> dict[str, Any]:
        outputs = [p for p in sorted(self.work.rglob("*")) if p.is_file() and not p.name.startswith(".")]
        outputs = [p for p in outputs if p.relative_to(self.work).parts[0] not in (*LEFTOVERS, "manifest.json")]
        usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        files = [*self._files, *(self.run_dir / s / "manifest.json" for s in self.plan["inputs"])]
        return {
            "stage": self.name,
            "fingerprint": self.plan["fingerprint"],
            "code_version": self.code_version,
            "command": [sys.executable, *sys.orig_argv[1:]],
            "host": platform.node(),
            "world_size": self.world_size,
            "started": self._started,
            "finished": time.time(),
            "wall_seconds": round(self.wall_seconds, 3),
            "peak_memory_bytes": max(usage) * 1024,
            "inputs": [describe_file(p, p) for p in files],
            "outputs": [describe_file(p, p.relative_to(self.work)) for p in outputs],
            "counts": self.counts,
            "metrics": self.metrics,
        }


def stage_main(name: str, body: Callable[[Stage], None], argv: list[str] | None = None, doc: str | None = None) -> int:
    """`main` of a stage module: parse --run-dir, then `run_stage`."""
    options = parser(doc)
    options.add_argument("--run-dir", required=True, type=Path, help="run directory holding profile.yaml and plan.json")
    return run_stage(name, body, options.parse_args(argv).run_dir)


def run_stage(name: str, body: Callable[[Stage], None], run_dir: Path) -> int:
    """Run `body`, publish; return the exit code.

    0 published; 2 bad input, said in one line; 75 preempted, to be started again. Other exceptions propagate.
    The heavy imports of a stage belong inside `body`, after --help was answered.
    """
    return outcome(lambda: _run_stage(name, body, run_dir))


def _run_stage(name: str, body: Callable[[Stage], None], run_dir: Path) -> int:
    _read(run_dir / "plan.json")  # nothing is written into a folder that is no run directory
    first = os.environ.get("RANK", "0") == "0"
    with lock(run_dir / ".work" / f"{name}.lock", f"stage {name} of {run_dir}") if first else nullcontext():
        stage = Stage(name, run_dir)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda *_: setattr(stage, "preempted", True))
        try:
            body(stage)
        except Preempted:
            print(f"{name}: preempted, will resume", file=sys.stderr)
            return EXIT_REQUEUE
        stage.publish()
    return 0


def describe_file(path: Path, shown_as: Path) -> dict[str, Any]:
    """A manifest's line about one file."""
    return {"path": str(shown_as), "size": path.stat().st_size, "sha256": sha256_file(path)}


def remove(path: Path) -> None:
    """Delete a file or a tree; nothing happens when there is none."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; `python -m pipeline.run --run-dir {path.parent}` makes it") from None
