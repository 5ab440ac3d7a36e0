"""A worker: a process that has imported what programs use, and forks a child for each of them.

In: requests on stdin, each its length (8 bytes, little-endian) and a program. Out: a JSON line about the start (the
walls' strength), then about each execution a JSON line and as many bytes of output and report as it says. The parent of
this process is evals.sandbox.pool.
A fork costs milliseconds where an interpreter with sympy takes a second to start, and no program sees what an earlier
one left behind: programs and outputs are kept in buffers that are wiped before the next fork, never as Python objects,
whose bytes would stay in the memory that the next program inherits.
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
_CHUNK = memoryview(bytearray(CHUNK))
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
    code, out, report = bytearray(), Kept(limits.output_bytes), Kept(4 * program.MAX_MESSAGE)
    while _receive(requests, code):
        ending = execute(code, out, report, limits, walls)
        _send(replies, ending, *out.parts(), *report.parts())
        for buffer in (out, report):
            buffer.wipe()
        code[:] = bytes(len(code))
        walls.clean()


def _own_channels() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout under other numbers; nothing a program or a library prints gets into the replies."""
    requests, replies = (os.fdopen(os.dup(fd), mode, buffering=0) for fd, mode in ((0, "rb"), (1, "wb")))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, replies  # type: ignore[return-value]


def _receive(requests: BinaryIO, code: bytearray) -> bool:
    """The next program, into `code`; False when there will be none."""
    header = bytearray(8)
    if not _fill(requests, header):
        return False
    size = int.from_bytes(header, "little")
    code[:] = bytes(size)
    return _fill(requests, code)


def _fill(source: BinaryIO, buffer: bytearray) -> bool:
    """Read until the buffer is full; False at the stream's end."""
    filled = 0
    with memoryview(buffer) as view:
        while filled < len(view):
            with view[filled:] as rest:
                if not (more := source.readinto(rest)):  # type: ignore[attr-defined]
                    return False
            filled += more
    return True


def _send(replies: BinaryIO, message: dict[str, Any], *parts: memoryview) -> None:
    """A JSON line, and bytes behind it."""
    for data in (memoryview(json.dumps(message).encode() + b"\n"), *parts):
        sent = 0
        while sent < len(data):
            sent += replies.write(data[sent:])


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
    """The beginning and the end of a stream, `limit` bytes together, in buffers of a fixed size."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head, self._tail = memoryview(bytearray(self._half)), memoryview(bytearray(self._half))
        self.length = 0

    def add(self, data: memoryview) -> None:
        """More of the stream."""
        room = max(0, min(len(data), self._half - self.length))
        self._head[self.length : self.length + room] = data[:room]
        self.length += len(data)
        if last := min(len(data) - room, self._half):
            self._tail[: self._half - last] = self._tail[last:]
            self._tail[self._half - last :] = data[len(data) - last :]

    def parts(self) -> list[memoryview]:
        """What was kept, with a mark where something was left out."""
        behind = min(self._half, max(0, self.length - self._half))
        cut = [memoryview(CUT)] if self.length > 2 * self._half else []
        return [self._head[: self.length], *cut, self._tail[self._half - behind :]]

    def wipe(self) -> None:
        """Forget it."""
        for part in (self._head[: self.length], self._tail[max(0, 2 * self._half - self.length) :]):
            part[:] = bytes(len(part))  # no more: a page that is written to has to be copied for the next fork
        self.length = 0


def execute(code: bytearray, out: Kept, report: Kept, limits: Limits, walls: Walls) -> dict[str, Any]:
    """Run one program in a child; how it ended, as `evals.sandbox.execution.verdict` takes it."""
    out_read, out_write = os.pipe()
    report_read, report_write = os.pipe()
    began = time.monotonic()
    child = walls.fork()
    if child == 0:
        _run_in_child(code, out_write, report_write, walls)
    os.close(out_write)
    os.close(report_write)
    kept = {out_read: out, report_read: report}
    ended = _follow(child, kept, began + limits.seconds, walls)
    _kill(child)
    _, status, usage = os.wait4(child, 0)
    for fd, stream in kept.items():
        _drain(fd, stream)
        os.close(fd)
    return {
        "ended": ended,
        "exit": os.waitstatus_to_exitcode(status),
        "cpu": usage.ru_utime + usage.ru_stime,
        "seconds": round(time.monotonic() - began, 6),
        "stdout": sum(map(len, out.parts())),
        "report": sum(map(len, report.parts())),
    }


def _run_in_child(code: bytearray, out: int, report: int, walls: Walls) -> None:
    """Never returns. Descriptor 1 is the output, 3 the report; 0 and 2 lead nowhere, the rest is closed."""
    try:
        os.dup2(out, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        walls.raise_around_this_process()
        os.dup2(report, 3)
        os.closerange(4, 1024)
        result = program.run(code.decode("utf-8", "surrogatepass"))
        os.write(3, json.dumps(result).encode())
        os._exit(0)
    finally:
        os._exit(70)


def _follow(child: int, kept: dict[int, Kept], deadline: float, walls: Walls) -> str:
    """Read what the child writes until it ends ("end"), the time is up ("timeout") or it writes too much ("files")."""
    process = os.pidfd_open(child)
    poll = select.poll()
    for fd in (process, *kept):
        poll.register(fd, select.POLLIN)
    try:
        look = time.monotonic() + walls.look_every
        while (now := time.monotonic()) < deadline:
            if now >= look:
                if walls.too_many_files(child, sum(stream.length for stream in kept.values())):
                    return "files"
                look = now + walls.look_every
            for fd, _ in poll.poll(max(0.0, min(deadline, look) - now) * 1000 + 1):  # below 0 it would wait for ever
                if fd == process:
                    return "end"
                if not _read(fd, kept[fd]):
                    poll.unregister(fd)
        return "timeout"
    finally:
        os.close(process)


def _read(fd: int, stream: Kept) -> int:
    """Bytes read: none at the end."""
    size = os.readv(fd, [_CHUNK])
    stream.add(_CHUNK[:size])
    _CHUNK[:size] = bytes(size)
    return size


def _kill(child: int) -> None:
    """Kill the child and its group. In namespaces all else dies with it; elsewhere seccomp lets it have no children."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def _drain(fd: int, stream: Kept) -> None:
    """Read what is left in a pipe, without waiting for more."""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while _read(fd, stream):
            pass


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
