"""What a program may do in the sandbox, what it may not, and that the sandbox works on whatever it tried."""

import json
import os
import random
import shutil
import string
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from evals.sandbox import Execution, Limits, RemoteSandbox, Sandbox, SandboxFailed
from evals.sandbox.walls import LAYERS

LIMITS = Limits(seconds=3, cpu_seconds=1, memory_bytes=256 * 2**20, output_bytes=2000, file_bytes=2**20)
SECRET = "MATHMILL_TEST_SECRET"
VARIANTS = {"all layers": LAYERS, "without namespaces": tuple(x for x in LAYERS if x != "namespaces")}


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda name: name.replace(" ", "-"))
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """One worker, with everything this machine offers, and again as in a container that allows no namespaces."""
    os.environ[SECRET] = "hunter2"
    try:
        with Sandbox(LIMITS, workers=1, layers=VARIANTS[request.param]) as running:
            yield running
    except SandboxFailed as error:
        pytest.skip(str(error))
    finally:
        del os.environ[SECRET]


@pytest.fixture
def attack(sandbox: Sandbox) -> Iterator[Any]:
    """Runs a program; afterwards the sandbox must still run others, in an empty folder and without leftovers."""
    yield sandbox.run
    after = sandbox.run("import os\nprint(6 * 7, os.listdir(), 'planted' in globals())")
    assert (after.stdout, after.status) == ("42 [] False\n", "ok")


def failed_with(execution: Execution, *errors: str) -> bool:
    return execution.status == "error" and str(execution.error).startswith(errors)


# --- what a program prints -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("print(1 + 1)", "2\n"),
        ("x = 20\nx + 1", "21\n"),  # nothing printed: the last expression counts
        ("print('a')\n'b'", "a\n"),
        ("x = 1", ""),
        ("None", ""),
        ("print('答案', '√2')", "答案 √2\n"),
        ("from sympy import *\nx = symbols('x')\nprint(solve(x**2 - 2, x))", "[-sqrt(2), sqrt(2)]\n"),
        ("def solution():\n    return 3.5\nprint(solution())", "3.5\n"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(1))", "P(x=1)\n"),
        ("if __name__ == '__main__':\n    print('main')", "main\n"),
        ("import threading\nthreading.Thread(target=lambda: print('thread')).start()", "thread\n"),
        ("import sys\nprint(1)\nsys.exit()", "1\n"),
        ("open('a.txt', 'w').write('kept'); print(open('a.txt').read())", "kept\n"),
        ("import fractions, statistics, mpmath, scipy; print(mpmath.mpf(1) / 4)", "0.25\n"),
    ],
)
def test_output_of_a_program(attack: Any, code: str, stdout: str) -> None:
    execution = attack(code)
    assert (execution.stdout, execution.error, execution.status) == (stdout, None, "ok")


NULL_BYTES = ("SyntaxError", "ValueError")  # the latter before Python 3.11.4


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("print('before')\n1 / 0", "ZeroDivisionError: division by zero"),
        ("x = = 1", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('gave up')", "SystemExit: gave up"),
        ("import os\nos._exit(3)", "exit status 3"),
        ("input()", "EOFError"),
        ("raise ValueError('first\\nlast line')", "last line"),
        ("print('\\ud800'); assert False", "AssertionError"),
        ("x = 1\0", tuple(f"{kind}: source code string cannot contain null bytes" for kind in NULL_BYTES)),
    ],
)
def test_error_is_the_last_line_of_the_traceback(attack: Any, code: str, error: str | tuple[str, str]) -> None:
    execution = attack(code)
    assert execution.status == "error"
    assert str(execution.error).startswith(error)
    assert ("before" in code) == ("before" in execution.stdout)


def test_long_output_keeps_its_beginning_and_its_end(attack: Any) -> None:
    stdout = attack("print('first')\nfor _ in range(1000): print('x' * 1000_000)\nprint('last')").stdout  # a gigabyte
    assert len(stdout) <= LIMITS.output_bytes + 10
    assert stdout.startswith("first\nxxx")
    assert "\n...\n" in stdout


def test_same_program_prints_the_same(sandbox: Sandbox) -> None:
    code = "import random, numpy\nprint(random.random(), numpy.random.rand(), {'a', 'b', 'c'}, hash('word'))"
    assert sandbox.run(code) == Execution(stdout=sandbox.run(code).stdout, error=None, status="ok", seconds=_any())


class _any(float):  # equal to every number
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float)

    __hash__ = None  # type: ignore[assignment]


# --- what a program may not do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "from sympy import Integer\nInteger(9) ** Integer(9) ** Integer(9)",  # hangs in C
        "import sympy\nsympy.parse_expr('9**9**9**9')",
        "import threading\ndef f():\n    while True: pass\nfor _ in range(4): threading.Thread(target=f).start()",
        "import time, threading\nthreading.Thread(target=time.sleep, args=(99,)).start()",
        "import signal, time\nfor s in (2, 15, 14, 24): signal.signal(s, signal.SIG_IGN)\nwhile True: time.sleep(9)",
    ],
)
def test_endless_program_is_stopped(attack: Any, code: str) -> None:
    execution = attack(code)
    assert execution.status == "timeout"
    assert execution.seconds < LIMITS.seconds + 5  # on a busy machine


@pytest.mark.parametrize(
    "code", ["x = bytearray(10**10)", "import numpy\nnumpy.ones(10**10)", "x = []\nwhile True: x.append(' ' * 10**6)"]
)
def test_memory_is_limited(attack: Any, code: str) -> None:
    assert attack(code).status == "memory"


@pytest.mark.parametrize(
    "call", ["os.fork()", "os.posix_spawn('/bin/true', ['true'], {})", "os.execv('/bin/sh', ['sh'])"]
)
def test_no_process_can_be_started(attack: Any, call: str) -> None:
    assert failed_with(attack(f"import os\nwhile True: {call}"), "PermissionError", "FileNotFoundError")


def test_subprocess_and_multiprocessing_fail(attack: Any) -> None:
    assert failed_with(attack("import subprocess\nsubprocess.run(['true'])"), "PermissionError", "FileNotFoundError")
    assert attack("import multiprocessing as m\nprint(m.Pool(2).map(abs, [1]))").status != "ok"


def test_threads_are_limited(attack: Any) -> None:
    code = "import threading, time\nfor _ in range(9999): threading.Thread(target=time.sleep, args=(.1,)).start()"
    assert failed_with(attack(code), "RuntimeError: can't start new thread")


def test_deep_recursion_ends_that_program_only(attack: Any) -> None:
    recursion = "def f(n): return f(n + 1)\nf(0)"
    assert failed_with(attack(recursion), "RecursionError")
    endless = f"import sys\nsys.setrecursionlimit(10**9)\n{recursion}"
    assert attack(endless).status in ("memory", "killed", "timeout")
    in_c = "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr([self])\nprint(A())"
    assert attack(in_c).status in ("memory", "killed", "timeout")


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])
def test_no_sockets(attack: Any, family: str) -> None:
    code = f"import socket\nsocket.socket(socket.{family}, socket.SOCK_DGRAM)"
    assert failed_with(attack(code), "PermissionError")


def test_no_requests_to_a_server_on_this_machine(attack: Any) -> None:
    with _Server() as url:
        code = f"import urllib.request\nprint(urllib.request.urlopen({url!r}, timeout=1).status)"
        assert attack(code).stdout == ""


def test_other_processes_cannot_be_signalled(attack: Any) -> None:
    code = (
        "import os\nhit = 0\nown = os.getpid()\n"
        f"for pid in (-1, 0, os.getppid(), {os.getpid()}, *range(1, 40000)):\n"
        "    try:\n        if pid != own: os.kill(pid, 9); hit += 1\n    except OSError: pass\nprint(hit)"
    )
    assert attack(code).stdout == "0\n"
    assert psutil.Process().is_running()


def test_environment_tells_nothing(attack: Any) -> None:
    code = (
        "import os, glob\nprint(dict(os.environ))\n"
        "for f in ('/proc/self/environ', '/proc/1/environ', f'/proc/{os.getppid()}/environ'):\n"
        "    try: print(open(f).read())\n    except OSError: pass"
    )
    stdout = attack(code).stdout
    assert SECRET not in stdout
    assert "HOME" not in stdout
    assert "PATH" not in stdout


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/passwd", "~/.ssh", "~/.bashrc", "~", "/", "/proc/1/maps", "/root"]
)
def test_files_outside_cannot_be_read(attack: Any, path: str) -> None:
    path = os.path.expanduser(path)
    code = f"import os\nprint(os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}).read())"
    assert failed_with(attack(code), "PermissionError", "FileNotFoundError")


def test_this_repository_can_be_neither_read_nor_written(attack: Any, repository: Path) -> None:
    for code in (
        f"open({str(repository / 'planted.py')!r}, 'w')",
        f"open({str(repository / 'README.md')!r}).read()",
        f"import os\nos.remove({str(repository / 'README.md')!r})",
    ):
        assert failed_with(attack(code), "PermissionError", "FileNotFoundError", "OSError: [Errno 30]")
    assert (repository / "README.md").is_file()
    assert not (repository / "planted.py").exists()


def test_files_outside_the_scratch_folder_cannot_be_changed(attack: Any, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    tmp_path.chmod(0o777)
    library = Path(json.__file__)
    for path in (kept, library):
        for act in (
            "os.remove(p)",
            "os.rename(p, p + 'x')",
            "open(p, 'a').write('x')",
            "os.chmod(p, 0)",
            "os.truncate(p, 0)",
            "os.utime(p)",
        ):
            execution = attack(f"import os\np = {str(path)!r}\n{act}")
            assert failed_with(execution, "PermissionError", "FileNotFoundError", "OSError: [Errno 30]")
    assert kept.read_text() == "kept"
    assert "json" in library.read_text()


def test_scratch_folder_is_small_and_gone_afterwards(attack: Any) -> None:
    assert failed_with(attack("open('big', 'wb').write(bytes(10**7))"), "OSError")
    deep = "import os\nfor _ in range(300):\n    os.mkdir('d'); os.chdir('d')\nos.mkdir('e', 0)"
    assert attack(deep).status == "ok"  # ... and `attack` sees an empty folder afterwards


def test_a_program_cannot_change_the_next_one(attack: Any) -> None:
    code = (
        "import builtins, math, sys\nplanted = 1\nbuiltins.print = None\nmath.sqrt = None\nsys.modules['sympy'] = None"
    )
    assert attack(code).status == "ok"
    assert attack("import math, sympy\nprint(math.sqrt(4), sympy.sqrt(4))").stdout == "2.0 2\n"


def test_forged_reports_and_closed_streams_harm_nobody_else(attack: Any) -> None:
    attack("import os\nos.write(3, b'[\"ok\", null]'); os._exit(9)")
    attack("import os\nos.write(3, b'nonsense' * 10**5)")
    attack("import os\nos.closerange(0, 100)")
    attack("import sys\nsys.stdout.close()\nsys.stdout = None\nprint(1)")


@pytest.mark.parametrize(
    "report", ['["error", 5]', '["ok", "text"]', '["error", {}]', "[[], null]", "[" * 7000, "1", '["gone", null]']
)
def test_forged_report_is_no_report(attack: Any, report: str) -> None:
    execution = attack(f"import os\nos.write(3, {report.encode()!r})\nos._exit(0)")
    assert (execution.status, execution.error) == ("killed", "the program ended without a report")


def test_any_signal_can_end_a_program(attack: Any) -> None:
    for number in (9, 11, 40):  # the last has no name
        assert attack(f"import os\nos.kill(os.getpid(), {number})\nos.abort()").status == "killed"


def test_error_can_be_written_to_a_file(attack: Any) -> None:
    assert str(attack("raise ValueError('\\ud800')").error).encode() == b"ValueError: ?"


@pytest.mark.parametrize(
    "act",
    [
        "resource.prlimit(p, resource.RLIMIT_NOFILE, (9, 9))",
        "os.sched_setaffinity(p, {0})",
        "os.setpriority(os.PRIO_PROCESS, p, 19)",
        "os.sched_setscheduler(p, os.SCHED_IDLE, os.sched_param(0))",
        "fcntl.fcntl(1, 8, p)",  # F_SETOWN: whom the file's signals go to
        "fcntl.fcntl(1, 10, 9)",  # F_SETSIG: which signal
    ],
)
def test_other_processes_cannot_be_touched(same_user: Sandbox, act: str) -> None:
    """Not even those of the same user, without namespaces around them: the worker, another pool's, this process."""
    code = f"import fcntl, os, resource, sys\nfor p in (os.getppid(), {os.getpid()}):\n    {act}"
    for _ in range(2):
        assert failed_with(same_user.run(code), "PermissionError")


@pytest.fixture(scope="module")
def same_user() -> Iterator[Sandbox]:
    """Programs that run under the user id of this process: only seccomp and Landlock stand between them."""
    try:
        with Sandbox(LIMITS, workers=1, layers=("seccomp", "landlock")) as running:
            yield running
    except SandboxFailed as error:
        pytest.skip(str(error))


def test_scratch_folder_takes_no_heap_of_files(attack: Any) -> None:
    many = "import time\nfor i in range(10**4): open(str(i), 'wb').write(bytes(9**5))\ntime.sleep(9)"
    execution = attack(many)
    assert str(execution.error).startswith(("OSError: [Errno 28]", "OSError: more than 1048576 bytes in files"))


@pytest.mark.parametrize(
    "keep",
    ["kept.append(f)", "kept.append(mmap.mmap(f.fileno(), 4096))", "os.posix_fallocate(f.fileno(), 0, 9 * 10**5)"],
)
def test_deleted_files_fill_no_disk(attack: Any, keep: str) -> None:
    code = (
        "import mmap, os\nkept = []\nfor i in range(10**5):\n    f = open('x', 'w+b', buffering=0)\n"
        f"    f.write(bytes(9 * 10**5))\n    os.remove('x')\n    {keep}"
    )
    error = str(attack(code).error)
    assert error.startswith(("OSError: [Errno 28]", "OSError: [Errno 24]", "PermissionError", "OSError: more than"))


def test_memory_keeps_nothing_of_earlier_programs() -> None:
    """A program reads all memory near the heap that it inherited; pages that are not there only make write() fail."""
    mark = "".join(random.choices(string.ascii_letters, k=24))
    scan = f"""
import ctypes, os
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
libc.write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
r, w = os.pipe()
shifted = {bytes(ord(c) + 1 for c in mark)!r}  # not as it was: it must not find itself
table = bytes((i + 1) % 256 for i in range(256))
found = pages = 0
for middle in (libc.sbrk(0), id(object()), id(os)):
    for page in range((middle >> 12) - 2000, (middle >> 12) + 2000):
        if libc.write(w, page << 12, 4096) == 4096:
            pages += 1
            found += shifted in os.read(r, 4096).translate(table)
print(pages > 300, found)
"""
    with Sandbox(Limits(seconds=60, cpu_seconds=60), workers=1) as patient:
        patient.run(f"print({mark!r} * 50)\n1 / 0 # {mark}")
        assert patient.run(scan).stdout == "True 0\n"


# --- the pool --------------------------------------------------------------------------------------------------------


def test_results_have_the_programs_order() -> None:
    with Sandbox(LIMITS, workers=2) as pool:
        codes = [f"import time\ntime.sleep({0.2 if i % 5 == 0 else 0})\nprint({i})" for i in range(20)]
        assert [e.stdout for e in pool.run_many(codes)] == [f"{i}\n" for i in range(20)]
        assert pool.run_many([]) == []


def test_workers_are_different_users() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give each worker a user id of its own")
    with Sandbox(LIMITS, workers=2) as pool:
        users = {e.stdout for e in pool.run_many(["import os, time\ntime.sleep(.3)\nprint(os.getuid())"] * 2)}
    assert len(users) == 2
    assert "0\n" not in users


def test_dead_worker_is_replaced_and_nothing_is_left_at_the_end() -> None:
    with Sandbox(LIMITS, workers=1) as pool:
        runner = threading.Thread(target=lambda: results.append(pool.run("import time\ntime.sleep(2)")))
        results: list[Execution] = []
        runner.start()
        time.sleep(0.3)
        _kill_workers()
        runner.join()
        assert [e.status for e in results] == ["killed"]
        assert pool.run("print(1)").stdout == "1\n"
        _kill_workers()
        assert pool.run("print(2)").stdout == "2\n"  # it died while idle: no program suffers
    assert not _workers()


def _kill_workers() -> None:
    for worker in _workers():
        worker.kill()
        worker.wait()


def _workers() -> list[psutil.Process]:
    alive = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    return [p for p in alive if "evals.sandbox.zygote" in " ".join(p.cmdline())]


def test_unsafe_machine_is_refused() -> None:
    with pytest.raises(SandboxFailed, match="not enough to run a model's programs"), Sandbox(workers=1, layers=()):
        pass


def test_works_without_any_capability(repository: Path) -> None:
    """Root without capabilities has what an ordinary user has: no more than a user namespace."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("the other tests run as an ordinary user already")
    code = (
        "from evals.sandbox import Sandbox\n"
        "with Sandbox(workers=1) as s:\n"
        "    print(s.strength()[0], s.run('print(6 * 7)').stdout, s.run('open(\"/etc/shadow\")').error)"
    )
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    if "not enough" in done.stderr:
        pytest.skip("no user namespaces here")
    assert "42" in done.stdout, done.stderr
    assert "No such file" in done.stdout or "Permission denied" in done.stdout


# --- a remote sandbox ------------------------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    """POST /run_code as SandboxFusion documents it: run `code` in Python, answer with its run_result."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/run_code" or request["language"] != "python":
            return self._answer({"status": "SandboxError", "message": "cannot run that"})
        command, limit = [sys.executable, "-I", "-c", request["code"]], request["run_timeout"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
            result = {"status": "Finished", "return_code": done.returncode, "execution_time": 0.1}
            result |= {"stdout": done.stdout, "stderr": done.stderr}
        except subprocess.TimeoutExpired:
            result = {"status": "TimeLimitExceeded", "return_code": None, "stdout": "", "stderr": ""}
        status = "Success" if result["return_code"] == 0 else "Failed"
        self._answer({"status": status, "message": "", "compile_result": None, "run_result": result, "files": {}})

    def do_GET(self) -> None:
        self._answer({})

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Not into the test's output."""


class _Server:
    """The handler on a free port of this machine."""

    def __enter__(self) -> str:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_remote_sandbox_answers_like_the_local_one() -> None:
    codes = [
        "print(1 + 1)",
        "20 + 1",
        "print('before')\n1 / 0",
        "raise MemoryError",
        "import sys; sys.exit(0)",
        "é = 'é'\né",
    ]
    with _Server() as url, RemoteSandbox(url, workers=2) as remote, Sandbox(LIMITS, workers=1) as local:
        here, there = ([(e.stdout, e.error, e.status) for e in s.run_many(codes)] for s in (local, remote))
    assert there == here


def test_remote_timeout_and_failing_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with _Server() as url:
        with RemoteSandbox(url, Limits(seconds=0.5)) as remote:
            assert remote.run("while True: pass").status == "timeout"
            assert remote.strength() == [f"remote: {url}"]
        monkeypatch.setattr("evals.sandbox.remote.time.sleep", lambda _: None)
        with RemoteSandbox(f"{url}/elsewhere") as remote, pytest.raises(SandboxFailed, match="cannot run that"):
            remote.run("print(1)")
