"""The SGLang server as a child process: started, waited for, watched, restarted, and stopped without leftovers.

In: a Hugging Face checkpoint folder, a ServerConfig. Out: a URL that evals.client speaks to.
On a GPU this is `python -m sglang.launch_server` (through evals.sglang_nccl when weights are broadcast to it); on a
CPU `python -m evals.sglang_cpu`, the same server made quick for small models.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType

import psutil

from evals.client import RequestRefused, ServerDied, SGLangClient
from evals.server_config import ServerConfig

CPU_ARGS = (
    *("--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
    *("--disable-overlap-schedule", "--disable-cuda-graph", "--sleep-on-idle"),  # an idle CPU server else spins a core
)
PR_SET_PDEATHSIG = 1
STOP_SECONDS = 1.0  # between SIGTERM and SIGKILL: requests were aborted and the server holds no state
SLURM_PORTS = range(20000, 32000)  # below Linux's ephemeral ports
WATCH_SECONDS = 0.5
LOG_TAIL_LINES = 30


class ServerStartFailed(Exception):
    """The server ended or stayed silent while starting; the message holds the end of its log."""


class SGLangServer:
    """One SGLang server for the checkpoint in `model_path`, logging to `log_path`.

    >>> with SGLangServer("run/sft/hf", config, Path("logs/server.log")) as server:
    ...     client = server.client()

    The server dies with the thread that started it (Linux's parent-death signal follows threads): start it from
    the main thread.
    """

    def __init__(
        self, model_path: str | Path, config: ServerConfig, log_path: Path, port: int | None = None, seed: int = 0
    ) -> None:
        self.model_path, self.config, self.log_path, self.seed = Path(model_path), config, Path(log_path), seed
        self._wanted_port = port
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._stopped = threading.Event()
        self._tmp: str | None = None

    def __enter__(self) -> "SGLangServer":
        self.start()
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id of the server's first process while it is started."""
        return self._process.pid if self._process is not None else None

    def client(self) -> SGLangClient:
        """A client of the server as it runs now; a restart may change the port."""
        return SGLangClient(self.url, self.config.request_timeout_seconds)

    def alive(self) -> bool:
        """Whether the server's first process runs; it is killed when one of its workers dies."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return once it generates; ServerStartFailed otherwise."""
        self.port, nccl_port = free_ports(self._wanted_port)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._tmp = tempfile.mkdtemp(prefix="sglang-")  # SGLang leaves its socket files in TMPDIR
        command = self.command(nccl_port)
        libc = ctypes.CDLL(None)
        parent = os.getpid()

        def die_with_parent() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before prctl
                os._exit(1)

        self._started = time.time()
        with open(self.log_path, "ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        try:
            self._wait_until_healthy()
        except BaseException:
            self.stop()
            raise
        self._stopped.clear()
        threading.Thread(target=self._watch, args=(self.processes(),), daemon=True, name="sglang-watch").start()

    def restart(self) -> None:
        """Stop what is left of the server and start it again with the checkpoint it was first given."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Abort running requests, SIGTERM, then SIGKILL what is left of the process tree."""
        if self._process is None:
            return
        self._stopped.set()
        if self.alive():
            with contextlib.suppress(ServerDied, RequestRefused):
                SGLangClient(self.url, timeout=STOP_SECONDS).abort_all()  # SIGTERM waits for running requests
            self._process.terminate()
            psutil.wait_procs(self.processes(), timeout=STOP_SECONDS)
        psutil.wait_procs(kill(self.processes()), timeout=STOP_SECONDS)
        self._process.wait()
        self._process = None
        if self._tmp is not None:
            shutil.rmtree(self._tmp, ignore_errors=True)

    def processes(self) -> list[psutil.Process]:
        """All processes of the server, orphans of a dead first process included: those of the session it leads."""
        return [] if self._process is None else session(self._process.pid, self._started)

    def command(self, nccl_port: int) -> list[str]:
        """The server's command line."""
        c = self.config
        on_gpu = "evals.sglang_nccl" if c.weight_sync == "nccl" else "sglang.launch_server"
        module = "evals.sglang_cpu" if c.device == "cpu" else on_gpu
        args = [sys.executable, "-m", module, "--model-path", str(self.model_path), "--host", "127.0.0.1"]
        args += ["--port", str(self.port), "--nccl-port", str(nccl_port), "--random-seed", str(self.seed)]
        args += ["--dtype", c.dtype, "--tp-size", str(c.tp_size), "--dp-size", str(c.dp_size), "--skip-server-warmup"]
        for name in ("mem_fraction_static", "max_total_tokens", "max_running_requests", "context_length"):
            value = getattr(c, name)
            if value is not None:
                args += [f"--{name.replace('_', '-')}", str(value)]
        return [*args, *(CPU_ARGS if c.device == "cpu" else ()), *c.extra_args]

    def environment(self) -> dict[str, str]:
        """The server's environment: ours, without torchrun's variables, which torch would take for its own."""
        torchrun = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
        env = {k: v for k, v in os.environ.items() if k not in torchrun and not k.startswith("TORCHELASTIC_")}
        env |= {"OMP_NUM_THREADS": str(self.config.omp_num_threads), "PYTHONUNBUFFERED": "1"}
        if self._tmp is not None:
            env["TMPDIR"] = self._tmp
        root = str(Path(__file__).resolve().parent.parent)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        if self.config.device == "cpu":
            # SGLang compiles two one-line functions, for ten seconds, when it decodes for the first time; and threads
            # that spin between operations make a busy machine several times slower
            env |= {"SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1", "OMP_WAIT_POLICY": "passive"}
        return env

    def _wait_until_healthy(self) -> None:
        client = SGLangClient(self.url)
        deadline = time.monotonic() + self.config.start_timeout_seconds
        while time.monotonic() < deadline:
            if not self.alive():
                code = self._process.returncode if self._process is not None else None
                raise ServerStartFailed(f"SGLang ended with exit code {code} while starting; {self._log_tail()}")
            if client.health():
                return
            time.sleep(0.2)
        raise ServerStartFailed(
            f"SGLang did not answer {self.url}/health in {self.config.start_timeout_seconds:.0f} s; {self._log_tail()}"
        )

    def _watch(self, processes: list[psutil.Process]) -> None:
        """Kill the whole server when one of its processes dies: SGLang would leave the callers waiting for it."""
        while not self._stopped.wait(WATCH_SECONDS):
            if not all(map(running, processes)):
                kill(processes)
                return

    def _log_tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n  ".join([f"the end of {self.log_path}:", *lines])


def session(leader: int, started: float) -> list[psutil.Process]:
    """The processes of the session that `leader` began at the time `started` (seconds since the epoch)."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader and process.create_time() >= started - 1:
                found.append(process)
    return found


def running(process: psutil.Process) -> bool:
    """Whether a process still runs; one that ended but was not waited for does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(processes: list[psutil.Process]) -> list[psutil.Process]:
    """SIGKILL each; psutil compares creation times, so that a reused process id is never signalled."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return processes


def free_ports(wanted: int | None = None) -> tuple[int, int]:
    """Two free ports, for HTTP (`wanted`, if given) and for the model processes' rendezvous.

    Processes of several virtual Slurm nodes share one host: there the search starts at a place that job id and
    rank give, so that servers that start at the same instant do not reach for the same port.
    """
    job, rank = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_PROCID", "0")
    if job is None:
        first, second = (_bind(0), _bind(0))
        return wanted or first, second
    start = (int(job) * 64 + int(rank) * 2) % len(SLURM_PORTS)
    candidates = (SLURM_PORTS[(start + i) % len(SLURM_PORTS)] for i in range(len(SLURM_PORTS)))
    free = (port for port in candidates if _bind(port))
    first, second = next(free), next(free)
    return wanted or first, second


def _bind(port: int) -> int:
    """The port that binding to `port` (0: any free one) gives, or 0 if it is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        try:
            s.bind(("", port))
        except OSError:
            return 0
        return int(s.getsockname()[1])
