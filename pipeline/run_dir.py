"""The run directory as the pipeline sees it: manifests, attempts, what state each stage is in, one run at a time.

Besides what stage/context.py documents, the pipeline keeps

    .plan/<fingerprint>.json       what the fingerprint was made of: its sha256 is the fingerprint
    .work/<stage>.attempt.json     who last started the stage, and how that ended
    .lock                          held (flock) while a `pipeline.run` works here
"""

import json
import platform
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline import processes
from stage import UsageError, atomic_write
from stage.files import lock


@dataclass(frozen=True)
class Attempt:
    """One start of a stage by an executor. It has ended when `exit_code` is set."""

    fingerprint: str
    host: str
    started: float
    pid: int | None = None  # on `host`; None for a Slurm job
    pid_ticks: int | None = None  # tells the process from a later one with the same id
    job: str | None = None  # Slurm job id
    exit_code: int | None = None
    error: str | None = None

    def alive(self) -> bool:
        """Whether the local process of this attempt still runs."""
        here = self.host == platform.node() and self.pid is not None and self.exit_code is None
        return here and processes.start_ticks(self.pid or 0) == self.pid_ticks


class RunDir:
    """Paths and records of one run directory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def manifest(self, stage: str) -> dict[str, Any] | None:
        """The manifest of a stage's published result; None if there is none."""
        return _read_json(self.path / stage / "manifest.json")

    def plan(self) -> dict[str, Any] | None:
        """plan.json, or None before the first plan."""
        return _read_json(self.path / "plan.json")

    def progress(self, stage: str) -> dict[str, Any] | None:
        """What the stage at work last wrote about its progress."""
        return _read_json(self.path / ".work" / stage / "progress.json")

    def work_fingerprint(self, stage: str) -> str | None:
        """The fingerprint of work begun and not published."""
        mark = self.path / ".work" / stage / "fingerprint"
        return mark.read_text() if mark.is_file() else None

    def log(self, stage: str) -> Path:
        """The stage's log file."""
        return self.path / "logs" / f"{stage}.log"

    def ingredients(self, fingerprint: str) -> dict[str, Any] | None:
        """What went into a fingerprint that was planned in this run directory."""
        return _read_json(self.path / ".plan" / f"{fingerprint}.json")

    def attempt(self, stage: str) -> Attempt | None:
        """The last start of a stage."""
        raw = _read_json(self._attempt_file(stage))
        return Attempt(**raw) if raw else None

    def write_attempt(self, stage: str, attempt: Attempt) -> None:
        """Record a start, or how it ended."""
        atomic_write(self._attempt_file(stage), json.dumps(asdict(attempt)))

    def mark(self, stage: str) -> str:
        """What the environment of every process of this stage carries, so that strays can be told and stopped."""
        return str((self.path / ".work" / stage).resolve())

    def stop_strays(self, stage: str) -> None:
        """Kill what is left of an earlier, killed attempt: two of them would write into one working directory."""
        if stopped := processes.kill_marked(self.mark(stage)):
            print(f"{stage}: stopped {stopped} left-over processes of an attempt that was killed", flush=True)

    def lock(self) -> AbstractContextManager[None]:
        """Keep other runs out of this directory."""
        return lock(self.path / ".lock", f"run directory {self.path}")

    def _attempt_file(self, stage: str) -> Path:
        return self.path / ".work" / f"{stage}.attempt.json"


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        raw = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error}); delete it and run again") from None
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: expected a JSON object; delete it and run again")
    return raw
