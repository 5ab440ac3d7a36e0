"""Shows how far a stage is: a bar on a terminal, a line now and then elsewhere. In: the stage's progress.json."""

import sys
import time
from types import TracebackType
from typing import Any

from stage.progress import PLAIN_LINE_SECONDS, duration

State = dict[str, Any]


def done_of(state: State) -> str:
    """`120/500 steps`."""
    total = f"/{state['total']}" if state["total"] is not None else ""
    return f"{state['done']}{total} {state['unit']}"


def line(state: State) -> str:
    """`pretrain: train: 120/500 steps, 3.1/s, ETA 2:02  loss 2.31`."""
    eta = f"ETA {duration(state['eta_seconds'])}" if state["eta_seconds"] is not None else "ETA unknown"
    return f"{state['description']}: {done_of(state)}, {state['rate']:.3g}/s, {eta}  {_note(state)}".rstrip()


def _note(state: State) -> str:
    return "  ".join(f"{key} {value}" for key, value in state["fields"].items())


class Display:
    """What the user sees of one running stage. Call `show` with each newly read progress state."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._bar: Any = None
        self._task: Any = None
        self._printed_at = 0.0
        self._printed = ""

    def __enter__(self) -> "Display":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichProgress

            columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")]
            self._bar = RichProgress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self.title, total=None, text="starting")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, state: State | None) -> None:
        """Bring the display up to date; None: the stage has not reported anything yet."""
        if state is None:
            return
        if self._bar is not None:
            text = line(state).removeprefix(f"{self.title}: ")
            self._bar.update(self._task, completed=state["done"], total=state["total"], text=text)
            return
        text = line(state)
        if text != self._printed and time.monotonic() - self._printed_at >= PLAIN_LINE_SECONDS:
            self._printed, self._printed_at = text, time.monotonic()
            print(f"  {text}", flush=True)
