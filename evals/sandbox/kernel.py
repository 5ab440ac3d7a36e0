"""The few Linux calls that Python 3.11 lacks, by ctypes. Each raises OSError with the kernel's reason."""

import ctypes
import os
import struct
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 0x1, 0x2
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SYS_MOUNT_SETATTR = 442  # the numbers from 424 on are the same on every architecture

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """A system call by its number."""
    sized = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *sized), f"syscall {number}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones; CLONE_NEWPID counts for children."""
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int, flag: int) -> None:
    """Enter the namespace that `fd` is open on."""
    _checked(_libc.setns(fd, flag), "setns")


def prctl(option: int, *arguments: int | bytes) -> None:
    """Set a property of this process."""
    sized = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    _checked(_libc.prctl(option, *sized, *[ctypes.c_ulong(0)] * (4 - len(sized))), f"prctl {option}")


def mount(source: str, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount something."""
    encode = (None if s is None else s.encode() for s in (source, str(target), kind))
    _checked(_libc.mount(*encode, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mount {target}")


def unmount(target: Path) -> None:
    """Take a mount out of the tree; it goes when its last user does."""
    _checked(_libc.umount2(str(target).encode(), MNT_DETACH), f"umount {target}")


def make_read_only(target: Path, recursive: bool) -> None:
    """Make a mount read-only, those below it too if `recursive`."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    syscall(SYS_MOUNT_SETATTR, AT_FDCWD, str(target).encode(), flags, attributes, len(attributes))


def pivot_root_here() -> None:
    """Make the working directory, a mount, the root; the old root is gone afterwards."""
    _checked(_libc.pivot_root(b".", b"."), "pivot_root")
    unmount(Path("."))
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability of this process."""
    header = struct.pack("Ii", 0x20080522, 0)
    _checked(_libc.capset(header, bytes(24)), "capset")
