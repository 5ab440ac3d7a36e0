"""A worker: a process that has imported what programs use, and forks a child for each of them.

In: requests on stdin, one JSON line each ({"code": ...}). Out: a JSON line about the start (the walls' strength), then
one about each execution. The parent of this process is evals.sandbox.pool.
A fork costs milliseconds where an interpreter with sympy takes a second to start, and no program sees what an earlier
one left behind.
"""

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from evals.sandbox import program
from evals.sandbox.execution import Limits
from evals.sandbox.walls import Walls

CHUNK = 65_536
CUT = b"\n...\n"  # stands where output was left out
PREIMPORTED = (
    "math cmath fractions decimal itertools functools collections random statistics re datetime calendar string heapq "
    "bisect operator json typing dataclasses copy time"
)


def main(settings: dict[str, Any]) -> None:
    """Serve until stdin ends. `settings`: limits, layers, base (an empty folder), libraries (bool)."""
    requests, replies = _own_channels()
    limits = Limits(**settings["limits"])
    walls = Walls(limits, tuple(settings["layers"]), Path(settings["base"]))
    _import_and_warm_up(settings["libraries"])
    walls.build()
    gc.collect()
    gc.freeze()  # a child's garbage collector then leaves the pages it shares with us alone
    _send(replies, {"strength": walls.strength, "enough": walls.enough})
    for line in requests:
        _send(replies, execute(json.loads(line)["code"], limits, walls))
        walls.clean()


def _own_channels() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout under other numbers; nothing a program or a library prints gets into the replies."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, replies


def _send(replies: BinaryIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message).encode() + b"\n")
    replies.flush()


def _import_and_warm_up(libraries: bool) -> None:
    """A fork takes the longer the more is in memory, so numpy and sympy are there only if wanted."""
    for name in PREIMPORTED.split():
        __import__(name)
    if not libraries:
        return
    import numpy
    import sympy

    numpy.random.seed(0)
    x = sympy.Symbol("x")
    sympy.solve(x**2 - x - 1, x)  # sympy imports its solvers when they are first needed


class Kept:
    """The beginning and the end of a stream, `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head, self._tail, self._length = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """More of the stream."""
        self._length += len(data)
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept, with a mark where something was left out."""
        whole = self._length <= 2 * self._half
        return bytes(self._head + (b"" if whole else CUT) + self._tail).decode("utf-8", "replace")


def execute(code: str, limits: Limits, walls: Walls) -> dict[str, Any]:
    """Run one program in a child; the fields of its Execution."""
    out_read, out_write = os.pipe()
    report_read, report_write = os.pipe()
    began = time.monotonic()
    child = walls.fork()
    if child == 0:
        _run_in_child(code, out_write, report_write, walls)
    os.close(out_write)
    os.close(report_write)
    kept = {out_read: Kept(limits.output_bytes), report_read: Kept(4 * program.MAX_MESSAGE)}
    ended = _follow(child, kept, began + limits.seconds)
    _kill(child)
    _, status, usage = os.wait4(child, 0)
    for fd, stream in kept.items():
        _drain(fd, stream)
        os.close(fd)
    seconds = time.monotonic() - began
    cpu = usage.ru_utime + usage.ru_stime
    kind, error = _verdict(kept[report_read].text(), ended, os.waitstatus_to_exitcode(status), cpu, limits)
    return {"stdout": kept[out_read].text(), "error": error, "status": kind, "seconds": round(seconds, 6)}


def _run_in_child(code: str, out: int, report: int, walls: Walls) -> None:
    """Never returns. Descriptor 1 is the output, 3 the report; 0 and 2 lead nowhere, the rest is closed."""
    try:
        os.dup2(out, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        walls.raise_around_this_process()
        os.dup2(report, 3)
        os.closerange(4, 1024)
        result = program.run(code)
        os.write(3, json.dumps(result).encode())
        os._exit(0)
    finally:
        os._exit(70)


def _follow(child: int, kept: dict[int, Kept], deadline: float) -> bool:
    """Read what the child writes until it ends (True) or the deadline passes (False)."""
    process = os.pidfd_open(child)
    poll = select.poll()
    for fd in (process, *kept):
        poll.register(fd, select.POLLIN)
    try:
        while (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(left * 1000 + 1):
                if fd == process:
                    return True
                data = os.read(fd, CHUNK)
                kept[fd].add(data)
                if not data:
                    poll.unregister(fd)
        return False
    finally:
        os.close(process)


def _kill(child: int) -> None:
    """Kill the child and its group. In namespaces all else dies with it; elsewhere seccomp lets it have no children."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def _drain(fd: int, stream: Kept) -> None:
    """Read what is left in a pipe, without waiting for more."""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while data := os.read(fd, CHUNK):
            stream.add(data)


def _verdict(report: str, ended: bool, exit_code: int, cpu: float, limits: Limits) -> tuple[str, str | None]:
    """The execution's status and error. The report is the program's word, and only tells of that program."""
    if not ended:
        return "timeout", f"TimeoutError: no end within {limits.seconds:g} seconds"
    if report:
        try:
            kind, error = json.loads(report)
            return (kind, error) if kind in ("ok", "error", "memory") else ("killed", None)
        except (ValueError, TypeError):
            return "killed", "the program ended without a report"
    if exit_code < 0:
        if cpu >= limits.cpu_seconds - 0.5:
            return "timeout", f"TimeoutError: more than {limits.cpu_seconds} seconds of CPU time"
        return "killed", f"killed by {signal.Signals(-exit_code).name}"
    return ("ok", None) if exit_code == 0 else ("error", f"exit status {exit_code}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
