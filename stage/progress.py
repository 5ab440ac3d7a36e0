"""Progress with rate and ETA: a rich bar on a terminal, a plain line now and then elsewhere, a small file always.

The file (`progress.json` in the stage's working directory) is what `pipeline.status` and the executor's bar read.
"""

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from stage.files import atomic_write

PLAIN_LINE_SECONDS = 10.0
FILE_SECONDS = 1.0


def duration(seconds: float) -> str:
    """`75` -> `1:15`, `3675` -> `1:01:15`."""
    s = int(seconds)
    return f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}" if s >= 3600 else f"{s // 60}:{s % 60:02d}"


class Progress:
    """Count work done towards `total` (None: unknown) units.

    >>> with Progress("train", total=100, unit="steps") as p:
    ...     p.update(1, loss="2.31")
    """

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str = "items",
        start: int = 0,
        file: str | Path | None = None,
        quiet: bool = False,
    ) -> None:
        self.description, self.total, self.unit, self.done = description, total, unit, start
        self.file = Path(file) if file else None
        self.fields: dict[str, Any] = {}
        self._first, self._began = start, time.monotonic()
        self._line_at = self._began
        self._file_at = 0.0
        self._quiet = quiet
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty() and not self._quiet:
            self._start_bar()
        self._write_file(force=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._write_file(force=True)
        if self._bar is not None:
            self._bar.stop()
        elif not self._quiet:
            self._print("failed" if kind else "done")

    def update(self, advance: int = 1, **fields: object) -> None:
        """Advance by `advance` units; `fields` are shown beside the bar (loss=2.31)."""
        self.done += advance
        self.fields.update({k: str(v) for k, v in fields.items()})
        self._write_file()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, note=self._note(), rate=f"{self.rate:.3g} {self.unit}/s")
        elif not self._quiet and time.monotonic() - self._line_at >= PLAIN_LINE_SECONDS:
            self._print()

    @property
    def rate(self) -> float:
        """Units a second since this process began counting."""
        return (self.done - self._first) / max(time.monotonic() - self._began, 1e-9)

    @property
    def eta_seconds(self) -> float | None:
        """Seconds left at the present rate; None when the total or the rate is unknown."""
        if self.total is None or self.done == self._first:
            return None
        return max(self.total - self.done, 0) / self.rate

    def _note(self) -> str:
        return "  ".join(f"{k} {v}" for k, v in self.fields.items())

    def _print(self, state: str = "") -> None:
        self._line_at = time.monotonic()
        eta = self.eta_seconds
        of = f"/{self.total}" if self.total is not None else ""
        tail = state or (f"ETA {duration(eta)}" if eta is not None else "ETA unknown")
        print(
            f"{self.description}: {self.done}{of} {self.unit}, {self.rate:.3g}/s, {tail}  {self._note()}".rstrip(),
            file=sys.stderr,
            flush=True,
        )

    def _write_file(self, force: bool = False) -> None:
        if self.file is None or (not force and time.monotonic() - self._file_at < FILE_SECONDS):
            return
        self._file_at = time.monotonic()
        state = {"description": self.description, "done": self.done, "total": self.total, "unit": self.unit}
        state |= {"rate": self.rate, "eta_seconds": self.eta_seconds, "fields": self.fields, "time": time.time()}
        atomic_write(self.file, json.dumps(state))

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
        ]
        columns += [TimeRemainingColumn(), TextColumn("{task.fields[note]}")]
        self._bar = RichProgress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(self.description, total=self.total, completed=self.done, note="", rate="")
        self._bar.start()
