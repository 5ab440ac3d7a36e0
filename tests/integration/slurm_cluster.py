"""A real Slurm of two nodes on this host, for as long as a test session needs it.

munged, slurmctld and two slurmd run from one temporary folder, on ports of their own, as the user who runs the tests.
Each node claims 16 CPUs and 8 GPUs: the tests need Slurm's accounting of GPUs, not GPUs. A Slurm or munge that the
host already runs is left alone.
"""

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "scancel")
SEARCH_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
FINAL_STATES = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}


class SlurmCluster:
    """The cluster whose files live in `folder`; `environment` is what Slurm's commands need to reach it."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder, self.nodes = folder, nodes
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": SEARCH_PATH}
        self._write_configuration()

    def start(self) -> None:
        """Bring every daemon up and wait until all nodes are idle."""
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = {name: self.folder / f"munged.{name}" for name in ("pid", "log", "seed")}
        munged = ["munged", f"--socket={self.folder}/munge.socket", f"--key-file={key}", f"--pid-file={files['pid']}"]
        self.command(*munged, f"--log-file={files['log']}", f"--seed-file={files['seed']}")
        self.command("slurmctld")
        for i in range(self.nodes):
            (self.folder / f"spool-n{i + 1}").mkdir()
            self.command("slurmd", "-N", f"n{i + 1}")
        deadline = time.monotonic() + 60
        while self.command("sinfo", "-h", "-t", "idle", "-o", "%D", check=False) != str(self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"Slurm did not come up:\n{self.logs()}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Cancel what runs, end the daemons by their process ids and wait until they are gone."""
        self.command("scancel", "--full", f"--user={getpass.getuser()}", check=False)
        deadline = time.monotonic() + 20
        while self.command("squeue", "-h", check=False) and time.monotonic() < deadline:
            time.sleep(0.2)
        pids = [int(p.read_text()) for p in sorted(self.folder.glob("*.pid")) if p.read_text().strip()]
        for pid in pids:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while any(_signal(pid, 0) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in pids:
            _signal(pid, signal.SIGKILL)

    def command(self, *args: str, check: bool = True) -> str:
        """Run one of Slurm's commands; its standard output."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(args, capture_output=True, text=True, timeout=60, env=environment)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def submit(self, *args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        """`sbatch`; the job's id. The test's own environment does not leak into the job, `env` does."""
        clean = {"HOME": os.environ.get("HOME", "/root"), **self.environment, **(env or {})}
        done = subprocess.run(["sbatch", "--parsable", *args], capture_output=True, text=True, env=clean, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """What `scontrol show job` knows about a job."""
        words: list[str] = []
        for _ in range(5):  # a busy controller closes a connection now and then
            if words := self.command("scontrol", "-o", "show", "job", job_id, check=False).split():
                break
            time.sleep(1)
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, job_id: str, seconds: float) -> dict[str, str]:
        """Wait for the job to end and return its description."""
        deadline = time.monotonic() + seconds
        while (job := self.job(job_id))["JobState"] not in FINAL_STATES:
            assert time.monotonic() < deadline, f"job {job_id} is {job['JobState']} after {seconds} s: {job}"
            time.sleep(0.2)
        return job

    def wait_until_running(self, job_id: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while self.job(job_id)["JobState"] != "RUNNING":
            assert time.monotonic() < deadline, self.job(job_id)
            time.sleep(0.1)

    def logs(self) -> str:
        """The daemons' logs, for a failure's message."""
        return "\n".join(f"== {p.name}\n{p.read_text()[-2000:]}" for p in sorted(self.folder.glob("*.log")))

    def _write_configuration(self) -> None:
        d, host, user = self.folder, socket.gethostname().split(".")[0], getpass.getuser()
        ports = _free_ports(self.nodes + 1)
        lines = [
            "ClusterName=local",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/munge",
            # cred_expire is also how long a requeued job waits before it starts again: by default two minutes
            f"AuthInfo=socket={d}/munge.socket,cred_expire=5",
            f"StateSaveLocation={d}/state",
            f"SlurmdSpoolDir={d}/spool-%n",
            f"SlurmctldPidFile={d}/slurmctld.pid",
            f"SlurmdPidFile={d}/slurmd-%n.pid",
            f"SlurmctldLogFile={d}/slurmctld.log",
            f"SlurmdLogFile={d}/slurmd-%n.log",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SwitchType=switch/none",
            "MpiDefault=none",
            "ReturnToService=2",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "SlurmdParameters=config_overrides",  # the nodes claim more than this host has
            "GresTypes=gpu",
            "DependencyParameters=kill_invalid_depend",
            "JobRequeue=1",
            "KillWait=5",
            "MinJobAge=3600",
            "SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0",
            "AccountingStorageType=accounting_storage/none",
        ]
        for i, port in enumerate(ports[1:]):
            lines.append(
                f"NodeName=n{i + 1} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                "CPUs=16 RealMemory=20000 Gres=gpu:8 State=UNKNOWN"
            )
        lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        (d / "slurm.conf").write_text("\n".join(lines) + "\n")
        (d / "gres.conf").write_text("Name=gpu File=/dev/tty[0-7]\n")  # any eight character devices


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A running two-node Slurm; skips where Slurm cannot run, saying what to install."""
    missing = [p for p in PROGRAMS if shutil.which(p, path=SEARCH_PATH) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: run `apt-get install slurm-wlm munge` (as root, `make setup` does)")
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs only as root: run the suite as root to include the Slurm tests")
    # Not pytest's tmp_path: the path of a Unix socket holds at most 107 characters
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)  # munge insists that others can reach its socket
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def _signal(pid: int, number: int) -> bool:
    """Send a signal (0: none, only look); whether the process was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
