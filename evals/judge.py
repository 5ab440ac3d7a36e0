"""Math-Verify in a process of its own: one that can be killed.

sympy may hang in C code on a tower of powers, where no signal handler and no thread gets a word in, and may eat all
memory. So the checks run in one long-lived child (started at the first hard check, about a second) with a limit on
its memory; a child that misses its deadline is killed and the next check starts another. Deadlines are CPU time of the
child, so that verdicts do not depend on what else the machine does.
Parent and child exchange one JSON line a check.
"""

import atexit
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

START_LIMIT = 180.0  # seconds; importing sympy on a busy machine takes a while
STALLED = 12  # times the limit, by the clock: then a check is given up even if it got no CPU time
MEMORY_LIMIT = 2 * 2**30  # bytes of address space
RECURSION_LIMIT = 3000
WARM_UP = (r"\boxed{[0,1]}", r"\boxed{0\le x\le 1}", r"\boxed{\{\sin x\}}")


class Judge:
    """A Math-Verify child of this process. `failures` counts the checks that ended without a verdict, by reason."""

    _shared: ClassVar[dict[int, "Judge"]] = {}

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @classmethod
    def shared(cls) -> "Judge":
        """The one of this process; a forked child must not talk through its parent's pipes."""
        if os.getpid() not in cls._shared:
            cls._shared[os.getpid()] = judge = cls()
            atexit.register(judge.close)
        return cls._shared[os.getpid()]

    def verdict(self, gold: str, answer: str, seconds: float) -> bool:
        """Whether Math-Verify finds `answer` equal to `gold`; False, counted, when it doesn't say so in `seconds`."""
        with self._lock:
            reply = self._ask({"gold": gold, "answer": answer, "seconds": 0.8 * seconds}, seconds)
        if "equal" not in reply:
            self.failures[reply["failure"]] += 1
        return bool(reply.get("equal"))

    def close(self) -> None:
        """Kill the child, if there is one."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
            self._child = None

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._child is None:
            self._child = self._start()
        try:
            assert self._child.stdin is not None
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
            line = self._line_within(seconds)
        except BrokenPipeError:
            line = b""
        if line:
            return dict(json.loads(line))
        self.close()
        return {"failure": "timeout" if line is None else "judge died"}

    def _start(self) -> "subprocess.Popen[bytes]":
        # -P: the folder of this file must not hide installed modules; HOME's cache and the GPU are of no use to it
        command = [sys.executable, "-P", str(Path(__file__).resolve())]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if not self._line(START_LIMIT):
            self.close()
            raise RuntimeError(f"Math-Verify did not start; run `{' '.join(command)}` to see why")
        return self._child

    def _line_within(self, cpu_seconds: float) -> bytes | None:
        """The child's next line; None when it has used `cpu_seconds` without one, or stands still."""
        assert self._child is not None
        used, give_up = _cpu_seconds(self._child.pid), time.monotonic() + STALLED * cpu_seconds
        left = cpu_seconds
        while left > 0 and time.monotonic() < give_up:
            if (line := self._line(max(0.05, left))) is not None:
                return line
            left = used + cpu_seconds - _cpu_seconds(self._child.pid)
        return None

    def _line(self, seconds: float) -> bytes | None:
        """The child's next line; None when it takes longer than `seconds`, empty when the child is gone."""
        assert self._child is not None and self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], seconds)[0]:
            return None
        return self._child.stdout.readline()


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve() -> None:
    """The child: answer one request a line until the parent closes the pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr  # what a library prints must not mix with the replies
    from math_verify import parse, verify
    from math_verify.errors import TimeoutException

    rang = False

    def ring(*_: object) -> None:
        nonlocal rang
        rang = True
        raise TimeoutException

    sys.setrecursionlimit(RECURSION_LIMIT)
    # The first check of a kind imports sympy's modules for it: seconds that are no answer's fault.
    for answer in WARM_UP:
        verify(parse(WARM_UP[0]), parse(answer), allow_set_relation_comp=True)
    signal.signal(signal.SIGPROF, ring)
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        request, rang = json.loads(line), False
        limit = request["seconds"]
        _die_after(10 * limit)
        signal.setitimer(signal.ITIMER_PROF, limit, limit / 8)  # again and again: Math-Verify may swallow the first
        try:
            gold, answer = (parse(request[k], parsing_timeout=None) for k in ("gold", "answer"))
            equal = verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True)
            signal.setitimer(signal.ITIMER_PROF, 0)
            reply: dict[str, Any] = {"failure": "timeout"} if rang else {"equal": equal}
        except (Exception, TimeoutException) as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            reply = {"failure": "timeout" if rang else type(error).__name__}
        print(json.dumps(reply), file=replies, flush=True)


def _die_after(seconds: float) -> None:
    """Let the kernel end this process when it goes on so long: its parent may be gone."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    serve()
