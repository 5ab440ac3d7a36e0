"""Runs stages one after another on this machine, each as a program of its own.

Everything a stage prints goes to RUN/logs/<stage>.log. SIGINT and SIGTERM are passed on as SIGTERM, on which a stage
saves a checkpoint and ends; a second one kills it. If this process is killed, the kernel sends the stage SIGTERM.
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
from contextlib import contextmanager
from dataclasses import replace

from pipeline import processes
from pipeline.executors.failure import explain
from pipeline.plan import PlannedStage
from pipeline.progress import Display
from pipeline.run_dir import Attempt, RunDir
from stage import EXIT_REQUEUE, UsageError
from stage.progress import duration

POLL_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class LocalExecutor:
    """`python` runs the stages in `run_dir`; hold its lock while using this."""

    def __init__(self, run_dir: RunDir, python: str = sys.executable) -> None:
        self.run_dir, self.python = run_dir, python
        self._signals = 0

    def run(self, stages: list[PlannedStage]) -> int:
        """Run `stages`; stop at the first that does not publish and return its exit code."""
        for stage in stages:
            if stage.nnodes > 1:
                raise UsageError(
                    f"{stage.name}.parallel.nnodes: {stage.nnodes} nodes, but the local executor has one; "
                    "use --executor slurm"
                )
        for number, stage in enumerate(stages, 1):
            code = self._run_one(stage, f"[{number}/{len(stages)}] {stage.name}")
            if code or self._signals:
                return code or EXIT_REQUEUE
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
            attempt, process = self._start(stage, command, output.fileno())
            with self._pass_on_signals(process, title), Display(stage.name) as display:
                while process.poll() is None:
                    display.show(self.run_dir.progress(stage.name))
                    time.sleep(POLL_SECONDS)
        processes.kill_marked(self.run_dir.mark(stage.name))  # servers and workers that a dying stage left behind
        return self._ended(stage, attempt, process.returncode, begin_of_attempt, time.monotonic() - began, title)

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
        print(f"error: {stage.name} failed (exit code {code}): {why}; log {log}", file=sys.stderr, flush=True)
        return code

    @contextmanager
    def _pass_on_signals(self, process: "subprocess.Popen[bytes]", title: str) -> Iterator[None]:
        def pass_on(number: int, _frame: object) -> None:
            self._signals += 1
            if self._signals == 1:
                print(f"{title}: stopping at its next checkpoint; once more kills it", file=sys.stderr, flush=True)
                process.terminate()
            else:
                process.kill()

        before = {n: signal.signal(n, pass_on) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _die_with_parent() -> None:
    """In the child, before it becomes the stage: ask the kernel for SIGTERM when the pipeline dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
