"""The walls around one execution: found out when a worker starts, raised in the child that runs the program.

In: the limits, the layers to try. Out: `Walls`, which says what it is made of (`strength`).
Every layer the kernel offers is used, for each covers what another one leaves open.
"""

import os
import resource
import stat
import subprocess
from pathlib import Path

from evals.sandbox import kernel, landlock, namespaces, seccomp
from evals.sandbox.execution import Limits

LAYERS = ("namespaces", "user", "seccomp", "landlock")  # and rlimits, which are always there
NOBODY = 65534
FIRST_USER = 1_900_000_000  # from here on systemd and the container engines leave user ids alone
OPEN_FILES = 64
MOST_FILES = 1000
WRITTEN = 8  # times its size a scratch folder may be written to
LOOK_EVERY = 0.1  # seconds


class Walls:
    """Made in the worker, before it does anything else: with namespaces this goes on in a new process."""

    def __init__(self, limits: Limits, layers: tuple[str, ...], base: Path) -> None:
        self.limits, self.scratch = limits, base
        self._user = _user_of_its_own()
        self._readable = namespaces.readable_paths()
        self._kind: namespaces.Kind | None = None
        if "namespaces" in layers:
            self._kind = namespaces.usable_kind(base, self._readable, limits.file_bytes)
        if self._kind:
            namespaces.enter(self._kind)
        self._become_nobody = (
            "user" in layers and self._kind != "user" and os.geteuid() == 0 and self._nobody_can_read()
        )
        self._seccomp = "seccomp" in layers and seccomp.available()
        self._landlock = landlock.version() if "landlock" in layers else 0
        self._rules = -1
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY) if self._kind else -1
        self._ceilings: list[tuple[int, int]] = []

    @property
    def strength(self) -> list[str]:
        """The layers in force, in words."""
        return [
            *([f"namespaces ({self._kind}): files, network, processes, ipc"] if self._kind else []),
            *(["user of its own"] if self._become_nobody else []),
            *(["seccomp"] if self._seccomp else []),
            *([f"landlock {self._landlock}"] if self._landlock else []),
            "no privileges",
            "rlimits",
        ]

    @property
    def enough(self) -> bool:
        """Whether something keeps programs from the network and from files."""
        return self._kind is not None or (self._seccomp and self._landlock > 0)

    def build(self) -> None:
        """Everything that is the same for all executions. Call after the imports: little can be read afterwards."""
        self._ceilings = self._find_ceilings()
        if self._kind:
            namespaces.build_root(self.scratch, self._readable, self.limits.file_bytes)
            self.scratch = namespaces.SCRATCH
        elif self._become_nobody:
            os.chown(self.scratch, self._user, self._user)
        if self._seccomp:
            seccomp.filter_program(1)  # remembered: the id of every program in a namespace of its own
        self._make_rules()

    def fork(self) -> int:
        """`os.fork`, the child in a process id namespace of its own where there are namespaces."""
        if self._kind:
            namespaces.new_pid_namespace(self._own_pid_namespace)
        return os.fork()

    def raise_around_this_process(self) -> None:
        """In the child: irrevocable. Files that are open now stay open."""
        os.setsid()
        os.chdir(self.scratch)
        for what, value in self._ceilings:
            resource.setrlimit(what, (value, value))
        if self._become_nobody:
            os.setgroups([])
            os.setresgid(self._user, self._user, self._user)
            os.setresuid(self._user, self._user, self._user)  # which takes the capabilities along
        else:
            kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if self._landlock:
            landlock.restrict(self._rules)
        if self._seccomp:
            seccomp.restrict(os.getpid())

    @property
    def look_every(self) -> float:
        """Seconds between two looks at the scratch folder."""
        return 3600.0 if self._kind else LOOK_EVERY  # in a root of its own the folder cannot grow

    def too_many_files(self, child: int, printed: int) -> bool:
        """Whether the scratch folder, where it is no small file system of its own, has outgrown its limit.

        Deleted files that are still open are not in the folder; so what `child` has written counts too, without the
        `printed` bytes of its output.
        """
        most = self.limits.file_bytes
        return self._kind is None and (_outgrown(self.scratch, most) or _written(child) - printed > WRITTEN * most)

    def clean(self) -> None:
        """After an execution: an empty scratch folder for the next one."""
        if not os.listdir(self.scratch):
            return
        if self._kind:
            namespaces.renew_scratch(self.limits.file_bytes)
            self._make_rules()  # they hold for a folder, not for its name
        else:
            _empty(self.scratch)

    def _make_rules(self) -> None:
        if self._rules >= 0:
            os.close(self._rules)
        if self._landlock:
            devices = map(Path, namespaces.DEVICES)
            self._rules = landlock.rule_set([*self._readable, *devices], [self.scratch, Path("/dev/null")])

    def _find_ceilings(self) -> list[tuple[int, int]]:
        """The resource limits of the programs; none above what this process may have itself."""
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        address_space = int(status["VmSize"].split()[0]) * 1024
        wanted = {
            resource.RLIMIT_CPU: self.limits.cpu_seconds,
            resource.RLIMIT_AS: address_space + self.limits.memory_bytes,
            resource.RLIMIT_FSIZE: self.limits.file_bytes,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_CORE: 0,
        }
        if self._become_nobody or self._kind == "user":  # else it would count all processes of the user
            wanted[resource.RLIMIT_NPROC] = self.limits.threads
        hard = {what: resource.getrlimit(what)[1] for what in wanted}
        return [(w, value if hard[w] == resource.RLIM_INFINITY else min(value, hard[w])) for w, value in wanted.items()]

    def _nobody_can_read(self) -> bool:
        """Whether another user reaches Python's libraries; in a root of their own the folders above are open."""
        above = (parent for path in self._readable for parent in path.resolve().parents)
        return self._kind is not None or all(parent.stat().st_mode & 0o001 for parent in above)


def _user_of_its_own() -> int:
    """A user id that no other worker has, or nobody's where it has no meaning (in a user namespace with few ids)."""
    user = FIRST_USER + os.getpid()
    for name in ("uid_map", "gid_map"):
        ranges = [[int(n) for n in line.split()] for line in Path("/proc/self", name).read_text().splitlines()]
        if not any(first <= user < first + count for first, _, count in ranges):
            return NOBODY
    return user


def _outgrown(scratch: Path, most: int) -> bool:
    """Whether a folder holds more than `most` bytes, or more than MOST_FILES files; looks no further than that."""
    left, seen, folders = most, 0, [str(scratch)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        left -= entry.stat(follow_symlinks=False).st_blocks * 512
                    if left < 0 or seen > MOST_FILES:
                        return True
        except FileNotFoundError:
            continue  # just deleted
        except PermissionError:
            if os.stat(folder).st_mode & stat.S_IWUSR:
                return True  # files may be made in it, but not counted
        except OSError:
            return True  # deeper than a path can say
    return False


def _written(process: int) -> int:
    """Bytes that a process has written to files and pipes; 0 where that is not to be known."""
    try:
        counts = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
    except OSError:
        return 0
    return max(int(counts["wchar"]), int(counts["write_bytes"]))  # the second knows what mapped memory has written


def _empty(folder: Path) -> None:
    """Delete what is in a folder, however deep and whatever its permissions: no work for recursive Python."""
    for command in (["chmod", "-R", "u+rwx", "."], ["find", ".", "-mindepth", "1", "-delete"]):
        subprocess.run(command, cwd=folder, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
