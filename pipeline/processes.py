"""Processes of a stage, told by a mark in their environment.

torchrun gives each worker a session of its own, and a killed parent leaves its children to init: neither process groups
nor parenthood finds all of a stage's processes. The environment is inherited by all of them. (Linux; without /proc
nothing is found.)
"""

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "MATHMILL_STAGE"
PATIENCE_SECONDS = 10.0


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is no such process, or only its corpse."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def children(pid: int) -> list[int]:
    """Ids of the processes that process `pid` has started; none where the kernel does not tell."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in lists for word in path.read_text().split()]


def marked(mark: str) -> list[int]:
    """Ids of the living processes, other than this one, whose environment carries MARK=`mark`."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        try:
            environment = path.read_bytes().split(b"\0")
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue  # another user's, or gone meanwhile
        if wanted in environment and pid != os.getpid():
            found.append(pid)
    return found


def kill_marked(mark: str) -> int:
    """SIGKILL all processes marked `mark` and wait until they are gone; how many there were."""
    killed: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (alive := marked(mark)) and time.monotonic() < deadline:
        for pid in alive:
            killed.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return len(killed)
