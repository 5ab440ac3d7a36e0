"""A system call filter: no sockets, no processes, no signals to others, no ways around the other limits.

In: the process id that may be signalled (the program's own). Out: a BPF program for prctl(PR_SET_SECCOMP).
A denied call fails with EPERM, which Python raises as PermissionError; the program goes on. Threads are allowed.
"""

import ctypes
import errno
import platform
import struct
from functools import cache

from evals.sandbox.kernel import prctl

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF_LD_W_ABS, JEQ, JGE, JSET, RET
# Where struct seccomp_data has them (little-endian).
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24
CLONE_THREAD = 0x10000
X32 = 0x40000000  # on x86-64 the numbers from here on are the x32 calls

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# call: number on x86-64, on arm64; 0: it does not exist there
DENIED = {
    # network
    **{"socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201)},
    **{"accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "recvfrom": (45, 207)},
    **{"sendmsg": (46, 211), "recvmsg": (47, 212), "sendmmsg": (307, 269), "recvmmsg": (299, 243)},
    **{"io_uring_setup": (425, 425), "io_setup": (206, 0)},
    # processes
    **{"fork": (57, 0), "vfork": (58, 0), "execve": (59, 221), "execveat": (322, 281)},
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)},
    **{"pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438)},
    **{"process_madvise": (440, 440), "process_mrelease": (448, 448), "unshare": (272, 97), "setns": (308, 268)},
    # other processes of the same user: their priority, processors and memory
    **{"setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setattr": (314, 274)},
    **{"sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122), "migrate_pages": (256, 238)},
    **{"move_pages": (279, 239)},
    # memory outside of the limit on address space
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186)},
    **{"semget": (64, 190), "mq_open": (240, 180), "userfaultfd": (323, 282)},
    **{"shmat": (30, 196), "shmctl": (31, 195), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187)},
    **{"semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191), "mq_unlink": (241, 181)},
    # changes to files that Landlock does not see
    **{"chmod": (90, 0), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "truncate": (76, 45)},
    **{"chown": (92, 0), "fchown": (93, 55), "lchown": (94, 0), "fchownat": (260, 54)},
    **{"utime": (132, 0), "utimes": (235, 0), "futimesat": (261, 0), "utimensat": (280, 88)},
    **{"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466)},
    **{"file_setattr": (469, 469)},
    # space that nobody writes to is not counted
    **{"fallocate": (285, 47)},
    # the machine
    **{"syslog": (103, 116), "statmount": (457, 457), "listmount": (458, 458), "modify_ldt": (154, 0)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51)},
    **{"open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431)},
    **{"fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "quotactl": (179, 60)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105)},
    **{"finit_module": (313, 273), "delete_module": (176, 106), "bpf": (321, 280), "perf_event_open": (298, 241)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "sethostname": (170, 161)},
    **{"setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112)},
    **{"adjtimex": (159, 171), "clock_adjtime": (305, 266)},
}
CLONE, KILL, TGKILL, PRLIMIT, FCNTL, IOCTL = (56, 220), (62, 129), (234, 131), (302, 261), (72, 25), (16, 29)
CLONE3 = 435
# A file can be made to send its "owner", any process of the same user, a signal of one's choice.
F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP = 8, 10, 15, 0x8901, 0x8902
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into a terminal


def available() -> bool:
    """Whether the filter is known for this machine's architecture."""
    return platform.machine() in AUDIT and ctypes.sizeof(ctypes.c_void_p) == 8


def restrict(pid: int) -> None:
    """Put this process, whose id is `pid`, under the filter. Needs no_new_privs."""
    program = ctypes.create_string_buffer(filter_program(pid))
    length = len(program.raw) // 8
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, struct.pack("HxxxxxxQ", length, ctypes.addressof(program)))


@cache
def filter_program(pid: int) -> bytes:
    """The filter's instructions, 8 bytes each: a list of `if call == n: return ...`, at the end `return ALLOW`."""
    machine = platform.machine()
    column = list(AUDIT).index(machine)
    deny = _step(RETURN, ERRNO | errno.EPERM)
    steps = [_step(LOAD, ARCHITECTURE), _step(EQUAL, AUDIT[machine], 1, 0), deny, _step(LOAD, NUMBER)]
    if machine == "x86_64":
        steps += [_step(AT_LEAST, X32, 0, 1), deny]
    for numbers in DENIED.values():
        if numbers[column]:
            steps += [_step(EQUAL, numbers[column], 0, 1), deny]
    steps += [_step(EQUAL, CLONE3, 0, 1), _step(RETURN, ERRNO | errno.ENOSYS)]  # its flags are out of sight: use clone
    steps += _only_if(CLONE[column], _step(ANY_BIT, CLONE_THREAD, 1, 0))
    steps += _only_if(KILL[column], _step(EQUAL, pid, 1, 0))
    steps += _only_if(TGKILL[column], _step(EQUAL, pid, 1, 0))
    steps += _only_if(PRLIMIT[column], _step(EQUAL, 0, 1, 0))  # its own limits
    steps += _unless(FCNTL[column], F_SETOWN, F_SETSIG, F_SETOWN_EX)
    steps += _unless(IOCTL[column], FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX)
    return b"".join([*steps, _step(RETURN, ALLOW)])


def _only_if(call: int, test: bytes) -> list[bytes]:
    """Allow `call` if its first argument passes `test`, which skips one instruction when it does."""
    deny, allow = _step(RETURN, ERRNO | errno.EPERM), _step(RETURN, ALLOW)
    return [_step(EQUAL, call, 0, 4), _step(LOAD, FIRST_ARGUMENT), test, deny, allow]


def _unless(call: int, *commands: int) -> list[bytes]:
    """Allow `call` unless its second argument is one of the commands."""
    deny, allow = _step(RETURN, ERRNO | errno.EPERM), _step(RETURN, ALLOW)
    tests = [step for command in commands for step in (_step(EQUAL, command, 0, 1), deny)]
    return [_step(EQUAL, call, 0, len(tests) + 2), _step(LOAD, SECOND_ARGUMENT), *tests, allow]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
