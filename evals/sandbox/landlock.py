"""Landlock: which paths a process may read, which one it may write; no TCP, no signals to processes outside.

In: paths. Out: a file descriptor of a rule set, made once and applied in every execution.
"""

import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from evals.sandbox.kernel import syscall

CREATE, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG, RULE_PATH_BENEATH = 1, 1
WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
# version: how many file system rights it knows
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
NETWORK_SINCE, SCOPES_SINCE = 4, 6
BIND_AND_CONNECT, ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3


def version() -> int:
    """The kernel's version of Landlock, 0 where there is none."""
    try:
        return syscall(CREATE, None, 0, VERSION_FLAG)
    except OSError:
        return 0


def rule_set(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """A rule set that denies every file but these and what is below them. Paths that do not exist are left out."""
    abi = version()
    everything = (1 << RIGHTS[min(abi, max(RIGHTS))]) - 1
    attributes = struct.pack(
        "QQQ",
        everything,
        BIND_AND_CONNECT if abi >= NETWORK_SINCE else 0,
        ABSTRACT_SOCKETS_AND_SIGNALS if abi >= SCOPES_SINCE else 0,
    )
    size = 24 if abi >= SCOPES_SINCE else 16 if abi >= NETWORK_SINCE else 8
    rules = syscall(CREATE, attributes, size, 0)
    for path in readable:
        _allow(rules, path, READ_FILE | READ_DIR)
    for path in writable:
        _allow(rules, path, everything)
    return rules


def restrict(rules: int) -> None:
    """Put this process under the rule set. Needs no_new_privs."""
    syscall(RESTRICT_SELF, rules, 0)


def _allow(rules: int, path: Path, rights: int) -> None:
    if not path.exists():
        return
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= READ_FILE | WRITE_FILE
        syscall(ADD_RULE, rules, RULE_PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)
