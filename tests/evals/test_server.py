"""Starting, watching and stopping a server process; its command line; telling failures apart."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from evals.client import ServerDied, SGLangClient
from evals.server import ServerStartFailed, SGLangServer, free_ports, running
from evals.server_config import ServerConfig

CPU = ServerConfig(device="cpu", dtype="float32", start_timeout_seconds=20)

# A server process that answers /health, has a child, and ignores SIGTERM
STUBBORN = """
import http.server, multiprocessing, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    do_POST = do_GET
    def log_message(self, *a): pass
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    multiprocessing.Process(target=time.sleep, args=(600,)).start()
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Started(SGLangServer):
    """Runs another program than SGLang: what is tested here is the handling of processes."""

    program = STUBBORN

    def command(self, nccl_port: int) -> list[str]:
        return [sys.executable, "-c", self.program, str(self.port)]


class Failing(Started):
    program = "print('no room for the KV cache'); raise SystemExit(3)"


def eventually(condition: object, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.05)
    return bool(condition())  # type: ignore[operator]


def test_a_server_that_ends_while_starting_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(ServerStartFailed, match=r"exit code 3(?s:.)*server\.log(?s:.)*no room for the KV cache"):
        Failing("model", CPU, tmp_path / "logs" / "server.log").start()


def test_a_server_that_stays_silent_is_an_error_and_is_stopped(tmp_path: Path) -> None:
    config = CPU.model_copy(update={"start_timeout_seconds": 0.5})
    server = Started("model", config, tmp_path / "log")
    server.program = "import time; time.sleep(600)"
    with pytest.raises(ServerStartFailed, match="did not answer"):
        server.start()
    assert not server.alive() and server.processes() == []


def test_stopping_ends_children_and_what_ignores_sigterm(tmp_path: Path) -> None:
    with Started("model", CPU, tmp_path / "log") as server:
        processes = server.processes()
        assert len(processes) == 2 and all(map(running, processes)) and server.alive()
    assert not any(map(running, processes)) and not server.alive()


def test_orphans_of_a_killed_first_process_are_stopped_too(tmp_path: Path) -> None:
    server = Started("model", CPU, tmp_path / "log")
    server.start()
    first, child = server.processes()
    server._stopped.set()  # without the watch, which would do it at once
    time.sleep(1)
    os.kill(first.pid, signal.SIGKILL)
    assert eventually(lambda: not server.alive())
    assert running(child)
    server.stop()
    assert eventually(lambda: not running(child))


def test_a_server_whose_worker_dies_is_killed(tmp_path: Path) -> None:
    with Started("model", CPU, tmp_path / "log") as server:
        _, worker = server.processes()
        os.kill(worker.pid, signal.SIGKILL)
        assert eventually(lambda: not server.alive())
        with pytest.raises(ServerDied):
            server.client().check_weight_version("1")


def test_a_restarted_server_has_new_processes(tmp_path: Path) -> None:
    with Started("model", CPU, tmp_path / "log") as server:
        before = server.processes()
        server.restart()
        assert server.alive() and not any(map(running, before))


def test_a_server_dies_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STUBBORN)
    script = f"""
import sys, time
from pathlib import Path
from evals.server import SGLangServer
from evals.server_config import ServerConfig
SGLangServer.command = lambda self, nccl_port: [sys.executable, {str(tmp_path / "program.py")!r}, str(self.port)]
server = SGLangServer("model", ServerConfig(device="cpu"), Path({str(tmp_path / "log")!r}))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=root)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    orphan = server.children()[0]
    assert running(server)
    parent.kill()
    parent.wait()
    assert eventually(lambda: not running(server))
    orphan.kill()  # SGLang's own workers do what this one does not: die with their parent


def test_nobody_listening_is_a_dead_server() -> None:
    client = SGLangClient(f"http://127.0.0.1:{free_ports()[0]}", timeout=5)
    assert not client.health()
    with pytest.raises(ServerDied, match="generate"):
        client.generate([[1, 2]], {"max_new_tokens": 1})


def test_ports_are_free_and_differ() -> None:
    first, second = free_ports()
    assert first != second
    for port in (first, second):
        with socket.socket() as s:
            s.bind(("", port))


def test_jobs_and_ranks_on_one_host_start_from_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = set()
    for job in (41, 42):
        for rank in range(4):
            monkeypatch.setenv("SLURM_JOB_ID", str(job))
            monkeypatch.setenv("SLURM_PROCID", str(rank))
            ports.update(free_ports())
    assert len(ports) == 2 * 4 * 2


def test_a_taken_port_is_passed_over_under_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    first, _ = free_ports()
    with socket.socket() as s:
        s.bind(("", first))
        assert first not in free_ports()


def test_the_server_does_not_see_torchruns_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "1")
    environment = SGLangServer("model", CPU, tmp_path / "log").environment()
    assert not {"RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID"} & set(environment)
    assert environment["OMP_NUM_THREADS"] == "1"


def test_weights_are_broadcast_only_to_one_copy_on_gpus() -> None:
    assert ServerConfig(device="cuda", weight_sync="nccl").weight_sync == "nccl"
    with pytest.raises(ValidationError, match="weight_sync nccl needs device cuda"):
        ServerConfig(device="cpu", weight_sync="nccl")
    with pytest.raises(ValidationError, match="dp_size 1"):
        ServerConfig(device="cuda", dp_size=2, weight_sync="nccl")
