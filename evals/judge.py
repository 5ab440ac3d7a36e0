"""Math-Verify in a process of its own: one that can be killed.

sympy may hang in C code on a tower of powers, where no signal handler and no thread gets a word in, and may eat all
memory. So the checks run in one long-lived child (started at the first hard check, about a second) with a limit on
its memory; a child that misses its deadline is killed and the next check starts another.
Parent and child exchange one JSON line a check.
"""

import atexit
import json
import os
import resource
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

START_LIMIT = 180.0  # seconds; importing sympy on a busy machine takes a while
MEMORY_LIMIT = 4 * 2**30  # bytes of address space
RECURSION_LIMIT = 3000


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
            reply = self._ask({"gold": gold, "answer": answer, "seconds": max(1, int(seconds) - 1)}, seconds)
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
            line = self._line(seconds)
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

    def _line(self, seconds: float) -> bytes | None:
        """The child's next line; None when it takes longer than `seconds`, empty when the child is gone."""
        assert self._child is not None and self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], seconds)[0]:
            return None
        return self._child.stdout.readline()


def serve() -> None:
    """The child: answer one request a line until the parent closes the pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr  # what a library prints must not mix with the replies
    from math_verify import parse, verify
    from math_verify.errors import TimeoutException

    sys.setrecursionlimit(RECURSION_LIMIT)
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        request, began = json.loads(line), time.monotonic()
        limit = request["seconds"]
        try:
            gold, answer = (parse(request[k], parsing_timeout=limit) for k in ("gold", "answer"))
            equal = verify(gold, answer, timeout_seconds=limit, allow_set_relation_comp=True)
            late = not equal and time.monotonic() - began >= limit  # Math-Verify says False when its alarm rings
            reply: dict[str, Any] = {"failure": "timeout"} if late else {"equal": equal}
        except (Exception, TimeoutException) as error:
            reply = {"failure": type(error).__name__}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    serve()
