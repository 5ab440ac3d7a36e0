"""Runs stages one after another on this machine, each as a program of its own.

Everything a stage prints goes to RUN/logs/<stage>.log. Ctrl-C and SIGTERM are passed on to the stage, which saves a
checkpoint and ends; a second one kills it. If this process is killed, the kernel sends the stage SIGTERM. Nothing that
a stage started outlives it.
"""

import ctypes
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from pipeline import processes
from pipeline.executors.failure import explain
from pipeline.plan import PlannedStage
from pipeline.progress import Display
from pipeline.run_dir import Attempt, RunDir
from stage import EXIT_INTERRUPTED, EXIT_REQUEUE
from stage.progress import duration

POLL_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class LocalExecutor:
    """`python` runs the stages in `run_dir`; hold its lock while using this."""

    def __init__(self, run_dir: RunDir, python: str = sys.executable) -> None:
        self.run_dir, self.python = run_dir, python
        self._signals: list[int] = []  # that have come
        self._process: subprocess.Popen[bytes] | None = None  # the stage at work
        self._torchrun = False  # whether that is torchrun with the stage's processes below it

    def run(self, stages: list[PlannedStage]) -> int:
        """Run `stages`; stop at the first that does not publish and return its exit code, or 130 or 75 when told to."""
        with self._passing_on_signals():
            for number, stage in enumerate(stages, 1):
                code = self._run_one(stage, f"[{number}/{len(stages)}] {stage.name}")
                if self._signals and (code or number < len(stages)):
                    return EXIT_INTERRUPTED if self._signals[0] == signal.SIGINT else EXIT_REQUEUE
                if code:
                    return code
        return 0

    def _run_one(self, stage: PlannedStage, title: str) -> int:
        self.run_dir.stop_strays(stage.name)
        (self.run_dir.path / ".work" / stage.name / "progress.json").unlink(missing_ok=True)
        command, log = stage.command(self.python, self.run_dir.path), self.run_dir.log(stage.name)
        print(f"{title}: started, log {log}", flush=True)
        log.parent.mkdir(exist_ok=True)
        began = time.monotonic()
        with open(log, "ab") as output:
            output.write(f"\n=== {time.strftime('%Y-%m-%d %H:%M:%S')} {shlex.join(command)}\n".encode())
            output.flush()
            begin_of_attempt = output.tell()
            try:
                attempt, self._process = self._start(stage, command, output.fileno())
                self._torchrun = stage.spec.torchrun
                if self._signals:  # while it started
                    self._tell(self._process)
                with Display(stage.name) as display:
                    while self._process.poll() is None:
                        display.show(self.run_dir.progress(stage.name))
                        time.sleep(POLL_SECONDS)
            finally:
                processes.kill_marked(self.run_dir.mark(stage.name))  # what a dying stage, or this one, left behind
        return self._ended(stage, attempt, self._process.returncode, begin_of_attempt, time.monotonic() - began, title)

    def _start(self, stage: PlannedStage, command: list[str], output: int) -> tuple[Attempt, "subprocess.Popen[bytes]"]:
        environment = os.environ | {processes.MARK: self.run_dir.mark(stage.name), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        ticks = processes.start_ticks(process.pid)
        attempt = Attempt(stage.fingerprint, platform.node(), time.time(), pid=process.pid, pid_ticks=ticks)
        self.run_dir.write_attempt(stage.name, attempt)
        return attempt, process

    def _ended(
        self, stage: PlannedStage, attempt: Attempt, exit_code: int, begin: int, seconds: float, title: str
    ) -> int:
        log = self.run_dir.log(stage.name)
        manifest = self.run_dir.manifest(stage.name)
        published = manifest is not None and manifest["fingerprint"] == stage.fingerprint
        if exit_code == 0 and published:
            self.run_dir.write_attempt(stage.name, replace(attempt, exit_code=0))
            print(f"{title}: published after {duration(seconds)}", flush=True)
            return 0
        with open(log, "rb") as file:
            file.seek(begin)
            text = file.read().decode(errors="replace")
        code, why = explain(exit_code, text) if exit_code else (1, "it ended without publishing a result")
        self.run_dir.write_attempt(stage.name, replace(attempt, exit_code=code, error=why))
        if self._signals:
            said = "stopped, its work is saved" if code == EXIT_REQUEUE else f"stopped: {why}"
            print(f"{title}: {said}", file=sys.stderr, flush=True)
            return code
        print(f"error: {stage.name} failed (exit code {code}): {why}; log {log}", file=sys.stderr, flush=True)
        return code

    @contextmanager
    def _passing_on_signals(self) -> Iterator[None]:
        before = {n: signal.signal(n, self._pass_on) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number: int, _frame: object) -> None:
        self._signals.append(number)
        if self._process is None or self._process.poll() is not None:
            return
        if len(self._signals) > 1:
            self._process.kill()
            return
        print("stopping at the next checkpoint; once more kills the stage", file=sys.stderr, flush=True)
        self._tell(self._process)

    def _tell(self, process: "subprocess.Popen[bytes]") -> None:
        """SIGTERM to the stage. torchrun would kill its workers half a minute later, however long their step takes:

        they are told themselves, and it ends after them.
        """
        workers = processes.children(process.pid) if self._torchrun else []
        for pid in workers or [process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _die_with_parent() -> None:
    """In the child, before it becomes the stage: ask the kernel for SIGTERM when the pipeline dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
