"""What a program may use, and what came of running it."""

from dataclasses import dataclass
from typing import Literal

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
