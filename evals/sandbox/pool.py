"""The local sandbox: a few warm workers, each running one program at a time.

In: programs. Out: an Execution each. A worker that dies or stops answering is replaced; its program counts as killed.
There are two kinds of workers: those that have imported numpy and sympy, and those that have not. A program that
mentions neither runs on the latter, where it costs half as much; it may import them all the same.
"""

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

from evals.sandbox.execution import Execution, Limits, SandboxFailed, verdict
from evals.sandbox.walls import LAYERS

START_LIMIT = 120.0  # seconds; importing sympy on a busy machine takes a while
GRACE = 10.0  # seconds beyond the limit of an execution before its worker is given up
ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = re.compile(r"\b(?:sympy|numpy|scipy|mpmath)\b")
# What the workers see. One hash seed, one thread for linear algebra: the same program prints the same.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1", "LANG": "C.UTF-8"}
# -P, -s: no module of the working directory or of the user's home; this repository leaves sys.path after the imports.
START = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from evals.sandbox.zygote import main; "
    "sys.path.pop(0); main(json.loads(sys.argv[2]))"
)


class Sandbox:
    """Runs programs within `limits` `workers` at a time (default: one a core), behind the `layers` that work here.

    >>> with Sandbox() as sandbox:
    ...     sandbox.run_many(["print(1)", "1/0"])

    Raises SandboxFailed where neither namespaces nor seccomp and Landlock together are to be had: nothing would keep
    a program from the network and the files of this user.
    """

    def __init__(
        self, limits: Limits | None = None, workers: int | None = None, layers: tuple[str, ...] = LAYERS
    ) -> None:
        count = workers or os.cpu_count() or 1
        self._workers = [
            _Worker(limits or Limits(), layers, libraries) for libraries in (True, False) for _ in range(count)
        ]
        self._idle: dict[bool, SimpleQueue[_Worker]] = {True: SimpleQueue(), False: SimpleQueue()}
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="sandbox")

    def __enter__(self) -> "Sandbox":
        try:
            for worker in self._workers:  # all of them import at the same time
                worker.start()
            for worker in self._workers:
                worker.wait_until_ready()
                self._idle[worker.libraries].put(worker)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, and with them what they run."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()

    def strength(self) -> list[str]:
        """The layers that contain the programs, in words."""
        return list(self._workers[0].strength)

    def run(self, code: str) -> Execution:
        """Run one program."""
        idle = self._idle[LIBRARIES.search(code) is not None]
        worker = idle.get()
        try:
            return worker.run(code)
        finally:
            idle.put(worker)

    def run_many(self, codes: Sequence[str]) -> list[Execution]:
        """Run programs on all workers; the results have the programs' order."""
        return list(self._threads.map(self.run, codes))


class _Worker:
    """One zygote and its pipes."""

    def __init__(self, limits: Limits, layers: tuple[str, ...], libraries: bool) -> None:
        self.limits, self.layers, self.libraries = limits, layers, libraries
        self.strength: list[str] = []
        self._base: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def start(self) -> None:
        """Start the process; it is ready some time later."""
        if self._base is None:
            self._base = Path(tempfile.mkdtemp(prefix="mathmill-sandbox-"))
        settings = {
            "limits": asdict(self.limits),
            "layers": self.layers,
            "base": str(self._base),
            "libraries": self.libraries,
        }
        command = [sys.executable, "-P", "-s", "-X", "utf8", "-c", START, str(ROOT), json.dumps(settings)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT, cwd="/", start_new_session=True
        )
        self._read = b""

    def wait_until_ready(self) -> None:
        """Return when programs can be run; SandboxFailed when that will not be, or not safely."""
        line = self._line(time.monotonic() + START_LIMIT)
        if not line:
            assert self._process is not None and self._process.stderr is not None
            self._process.kill()
            tail = self._process.stderr.read().decode(errors="replace").strip().rsplit("\n", 1)[-1]
            raise SandboxFailed(f"a sandbox worker did not start: {tail or 'no answer'}")
        ready = json.loads(line)
        self.strength = ready["strength"]
        if not ready["enough"]:
            raise SandboxFailed(
                f"this machine offers only {', '.join(self.strength)}: not enough to run a model's programs; "
                "allow user namespaces or use a remote sandbox"
            )

    def run(self, code: str) -> Execution:
        """Run one program here. A worker lost on the way is replaced."""
        assert self._process is not None
        if self._process.poll() is not None:  # it died while idle
            self._restart()
        assert self._process.stdin is not None
        began = time.monotonic()
        try:
            program = code.encode("utf-8", "surrogatepass")
            self._process.stdin.write(len(program).to_bytes(8, "little") + program)
            self._process.stdin.flush()
            deadline = began + self.limits.seconds + GRACE
            if line := self._line(deadline):
                ending = json.loads(line)
                stdout, report = (self._bytes(ending[name], deadline) for name in ("stdout", "report"))
                return verdict(ending, stdout, report, self.limits)
        except (BrokenPipeError, EOFError):
            pass
        self._restart()
        return Execution("", "the sandbox worker died", "killed", time.monotonic() - began)

    def stop(self) -> None:
        """End the process and delete its folder."""
        self._end()
        if self._base is not None:
            shutil.rmtree(self._base, ignore_errors=True)

    def _restart(self) -> None:
        self._end()
        self.start()
        self.wait_until_ready()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _line(self, deadline: float) -> bytes:
        """The worker's next line; empty when it is gone or does not write one before the deadline."""
        try:
            while b"\n" not in self._read:
                self._more(deadline)
        except EOFError:
            return b""
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _bytes(self, size: int, deadline: float) -> bytes:
        """The worker's next `size` bytes."""
        while len(self._read) < size:
            self._more(deadline)
        data, self._read = self._read[:size], self._read[size:]
        return data

    def _more(self, deadline: float) -> None:
        """Read what the worker has written; EOFError when it is gone or writes nothing before the deadline."""
        assert self._process is not None and self._process.stdout is not None
        fd, poll = self._process.stdout.fileno(), select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000) or not (data := os.read(fd, 65_536)):
            raise EOFError
        self._read += data
