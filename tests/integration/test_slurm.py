"""The Slurm scripts on a real two-node Slurm (slurm_cluster.py)."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.integration
Submit = Callable[..., str]

# A stage in miniature: on the first start it works until it is told to stop, on the second it finishes.
WORKER = """
import os, signal, sys, time
from pathlib import Path

told = []
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda n, _: told.append(n))
start, rank = os.environ.get("SLURM_RESTART_COUNT", "0"), os.environ["RANK"]
note = Path(sys.argv[1]) / f"start-{start}-rank-{rank}"
note.write_text(os.environ["SLURM_NODEID"])
deadline = time.monotonic() + 60
while start == "0" and not told and time.monotonic() < deadline:
    time.sleep(0.05)
sys.exit(75 if told else 0)
"""


@pytest.fixture
def submit_script(slurm_cluster: SlurmCluster, repository: Path, tmp_path: Path) -> Submit:
    """Submit a job that sources slurm/env.sh and then runs `body`, as the stage scripts do; its id."""

    def submit(body: str, *args: str) -> str:
        script = tmp_path / "job.sh"
        script.write_text(f'#!/bin/bash\nsource "$MATHMILL_HOME/slurm/env.sh"\n{body}\n')
        env = {"MATHMILL_HOME": str(repository), "PYTHON": sys.executable}
        return slurm_cluster.submit(
            f"--output={tmp_path}/%j.out", "--requeue", *args, str(script), env=env, cwd=tmp_path
        )

    return submit


def test_a_job_gets_two_nodes_and_their_gpus(
    slurm_cluster: SlurmCluster, submit_script: Submit, tmp_path: Path
) -> None:
    report = 'echo "$SLURM_NODEID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" >> "$0.nodes"'
    job = submit_script(f"on_nodes 2 bash -c '{report}' {tmp_path}/report", "--nodes=2", "--gpus-per-node=8")
    ended = slurm_cluster.wait(job, 30)
    assert ended["JobState"] == "COMPLETED"
    assert ended["TresPerNode"] == "gres:gpu:8"
    nodes = sorted((tmp_path / "report.nodes").read_text().splitlines())
    assert nodes == ["0 n1 0,1,2,3,4,5,6,7", "1 n2 0,1,2,3,4,5,6,7"]


def test_a_stopped_stage_goes_back_into_the_queue_and_finishes(
    slurm_cluster: SlurmCluster,
    submit_script: Submit,
    tmp_path: Path,
) -> None:
    """SIGUSR1 reaches the torchrun workers on both nodes; their exit code 75 puts the job back; it starts again."""
    (tmp_path / "worker.py").write_text(WORKER)
    torchrun = '"$PYTHON" -m torch.distributed.run --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d'
    endpoint = '--rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$(first_node):$(job_port)"'
    job = submit_script(f"on_nodes 2 {torchrun} {endpoint} worker.py {tmp_path}", "--nodes=2")
    first = [tmp_path / f"start-0-rank-{rank}" for rank in range(4)]
    _wait_for(first, 180)
    assert sorted(p.read_text() for p in first) == ["0", "0", "1", "1"]  # two ranks on each node
    slurm_cluster.command("scancel", "--batch", "--signal=USR1", job)
    _wait_for([tmp_path / f"start-1-rank-{rank}" for rank in range(4)], 180)
    ended = slurm_cluster.wait(job, 30)
    assert (ended["JobState"], ended["Restarts"]) == ("COMPLETED", "1")


def test_a_failing_stage_fails_its_job_and_the_jobs_that_wait_for_it(
    slurm_cluster: SlurmCluster, submit_script: Submit
) -> None:
    """Bad input (exit code 2) is not tried again."""
    job = submit_script("on_nodes 1 bash -c 'exit 2'")
    then = submit_script("on_nodes 1 true", f"--dependency=afterok:{job}")
    failed = slurm_cluster.wait(job, 30)
    assert (failed["JobState"], failed["ExitCode"], failed["Restarts"]) == ("FAILED", "2:0", "0")
    assert slurm_cluster.wait(then, 30)["JobState"] == "CANCELLED"


def test_a_chain_of_jobs_runs_in_order(slurm_cluster: SlurmCluster, submit_script: Submit, tmp_path: Path) -> None:
    first = submit_script(f"sleep 1; echo first >> {tmp_path}/order")
    second = submit_script(f"echo second >> {tmp_path}/order", f"--dependency=afterok:{first}")
    assert slurm_cluster.wait(second, 30)["JobState"] == "COMPLETED"
    assert (tmp_path / "order").read_text().split() == ["first", "second"]


def _wait_for(files: list[Path], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while missing := [f.name for f in files if not (f.exists() and f.read_text())]:
        assert time.monotonic() < deadline, f"not written after {seconds} s: {missing}\n{_outputs(files[0].parent)}"
        time.sleep(0.1)


def _outputs(folder: Path) -> str:
    return "\n".join(p.read_text() for p in folder.glob("*.out"))
