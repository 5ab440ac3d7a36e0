"""A worker's own view of the machine: a root of its own, no network, no other processes.

In: paths to keep readable. Out: this process and its children see these, read-only, a small scratch folder, four
devices, and nothing else. Each execution gets a process id namespace that takes all its processes along when it ends.
Works with CAP_SYS_ADMIN (kind "privileged") and, through a user namespace, without (kind "user").
"""

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from evals.sandbox import kernel

Kind = Literal["privileged", "user"]
KINDS: tuple[Kind, ...] = ("privileged", "user")
SCRATCH = Path("/tmp")  # in the new root
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache")


def readable_paths() -> list[Path]:
    """What Python needs to import modules: the libraries of its installation, its environment and the system."""
    own = (Path(prefix) / name for prefix in (sys.base_prefix, sys.prefix) for name in ("lib", "lib64"))
    paths = sorted({p for p in (*own, *map(Path, SYSTEM)) if p.exists()})
    return [p for p in paths if not any(p.is_relative_to(q) for q in paths if q != p)]


def usable_kind(base: Path, readable: list[Path], scratch_bytes: int) -> Kind | None:
    """The first kind that works here, found by trying in a child."""
    for kind in KINDS:
        child = os.fork()
        if child == 0:
            try:
                enter(kind)
                build_root(base, readable, scratch_bytes)
                os._exit(0)
            except OSError:
                os._exit(1)
        if os.waitpid(child, 0)[1] == 0:
            return kind
    return None


def enter(kind: Kind) -> None:
    """Continue as the first process of new namespaces; the process that called stays outside, waits, exits alike."""
    uid, gid = os.getuid(), os.getgid()
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS | kernel.CLONE_NEWPID
    kernel.unshare(flags | (kernel.CLONE_NEWUSER if kind == "user" else 0))
    if kind == "user":
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path("/proc/self", name).write_text(text)
    inner = os.fork()
    if inner:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xFF)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def build_root(base: Path, readable: Iterable[Path], scratch_bytes: int) -> None:
    """Make `base`, an empty folder, the place of a new root with the readable paths, and go there."""
    kernel.mount("none", Path("/"), None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", base, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    for path in readable:
        _bind(path, base / path.relative_to("/"))
    for device in map(Path, DEVICES):
        if device.exists():
            _bind(device, base / device.relative_to("/"))
    scratch = base / SCRATCH.relative_to("/")
    scratch.mkdir()
    _mount_scratch(scratch, scratch_bytes)
    os.chdir(base)
    kernel.pivot_root_here()
    kernel.make_read_only(Path("/"), recursive=False)


def renew_scratch(scratch_bytes: int) -> None:
    """A new, empty scratch folder in place of the one there is."""
    kernel.unmount(SCRATCH)
    _mount_scratch(SCRATCH, scratch_bytes)


def new_pid_namespace(own: int) -> None:
    """Let the next child be the first process of a new process id namespace. `own` is open on this process's."""
    kernel.setns(own, kernel.CLONE_NEWPID)  # else only the first child would get one
    kernel.unshare(kernel.CLONE_NEWPID)


def _mount_scratch(path: Path, size: int) -> None:
    data = f"size={size},nr_inodes=1000,mode=1777"
    kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, data)


def _bind(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    kernel.mount(str(source), target, None, kernel.MS_BIND | kernel.MS_REC)
    if not source.is_char_device():
        kernel.make_read_only(target, recursive=True)
