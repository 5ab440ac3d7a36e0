"""What a program may use, and what came of running it."""

import json
import signal
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "error", "timeout", "memory", "killed"]


class SandboxFailed(Exception):
    """The sandbox cannot be set up, or a remote one does not answer. No fault of the program."""


@dataclass(frozen=True)
class Limits:
    """The limits of one execution."""

    seconds: float = 10.0  # by the clock; DeepSeekMath's evaluation waits as long
    cpu_seconds: int = 10  # of all threads together
    memory_bytes: int = 2**30  # of address space, beyond what Python, numpy and sympy take
    output_bytes: int = 16_384  # of what it prints, the beginning and the end are kept
    file_bytes: int = 16 * 2**20  # of its scratch folder, and of one file
    threads: int = 64


@dataclass(frozen=True)
class Execution:
    """How a program ended.

    ok: by itself, without an exception. error: `error` is the last line of its traceback, or its exit status.
    timeout: out of CPU or clock time. memory: out of memory. killed: it died of a signal, or its worker did.
    """

    stdout: str
    error: str | None
    status: Status
    seconds: float


def verdict(ending: dict[str, Any], stdout: bytes, report: bytes, limits: Limits) -> Execution:
    """How a worker says that a program ended, as an Execution.

    `ending`: ended ("end", "timeout" or "files"), exit (status, or minus a signal), cpu, seconds. The report is the
    program's own word: nothing is taken for granted about it, and it only tells of that program.
    """
    status, error = _status(ending, report, limits)
    text = stdout.decode("utf-8", "replace")
    if error is not None:  # a lone surrogate could be written to no file
        error = error.encode("utf-8", "replace").decode()
    return Execution(text, error, status, float(ending["seconds"]))


def _status(ending: dict[str, Any], report: bytes, limits: Limits) -> tuple[Status, str | None]:
    if ending["ended"] == "timeout":
        return "timeout", f"TimeoutError: no end within {limits.seconds:g} seconds"
    if ending["ended"] == "files":
        return "killed", f"OSError: more than {limits.file_bytes} bytes in files"
    if report:
        return _reported(report)
    code = ending["exit"]
    if code < 0:
        if ending["cpu"] >= limits.cpu_seconds - 0.5:
            return "timeout", f"TimeoutError: more than {limits.cpu_seconds} seconds of CPU time"
        names = {s.value: s.name for s in signal.Signals}  # without most real-time signals
        return "killed", f"killed by {names.get(-code, f'signal {-code}')}"
    return ("ok", None) if code == 0 else ("error", f"exit status {code}")


def _reported(report: bytes) -> tuple[Status, str | None]:
    try:
        kind, error = json.loads(report)
    except (ValueError, TypeError, RecursionError):
        return "killed", "the program ended without a report"
    if kind == "ok" and error is None:
        return "ok", None
    if kind in ("error", "memory") and isinstance(error, str):
        return kind, error
    return "killed", "the program ended without a report"
