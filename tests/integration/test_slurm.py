"""The Slurm scripts on a real two-node Slurm (slurm_cluster.py)."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

# The tiny profile, made as small as every stage can be
SMALLEST = (
    "model.num_layers=2",
    "model.hidden_size=32",
    "model.ffn_hidden_size=64",
    "pretrain.train_tokens=8192",
    "sft.train_iters=2",
    "sft.sources.0.num_examples=200",
    "reward.questions.num_questions=8",
    "reward.num_solutions=2",
    "reward.num_completions=2",
    "reward.max_new_tokens=16",
    "reward.micro_batch_size=2",
    "reward.global_batch_size=4",
    "grpo.train_iters=2",
    "grpo.questions.num_questions=8",
    "grpo.questions_per_step=4",
    "grpo.group_size=2",
    "grpo.micro_batch_size=2",
    "grpo.global_batch_size=8",
    "grpo.max_new_tokens=16",
    "evals.checkpoints=[grpo]",
    "evals.benchmarks=[{name: word_problems, limit: 4, num_samples: 2, max_new_tokens: 16}]",
)
STAGES = ("corpus", "pretrain", "sft", "reward", "grpo", "evals")


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


def test_a_crawl_is_read_by_an_array_of_jobs_and_then_mined(
    slurm_cluster: SlurmCluster, repository: Path, tmp_path: Path
) -> None:
    """As slurm/stage0_corpus.sh says: each task reads its share of the files, the stage finds all of them read."""
    second = tmp_path / "second.warc.gz"
    second.write_bytes((repository / "examples/pages.warc.gz").read_bytes())
    run_dir, inputs = tmp_path / "run", f"corpus.inputs=[examples/pages.warc.gz,{second}]"
    plan = [sys.executable, "-m", "pipeline.plan", "--profile", "tiny", "--run-dir", str(run_dir), "--set", inputs]
    subprocess.run([*plan, "--set", "corpus.rounds.max_rounds=1"], cwd=repository, check=True)
    environment = {"RUN_DIR": str(run_dir), "PYTHON": sys.executable}
    script, output = str(repository / "slurm/stage0_corpus.sh"), f"--output={tmp_path}/%j.out"
    array = slurm_cluster.submit(output, "--array=0-1", script, env=environment, cwd=repository)
    stage = slurm_cluster.submit(output, f"--dependency=afterok:{array}", script, env=environment, cwd=repository)
    ended = slurm_cluster.wait(stage, 300)
    log = (run_dir / "logs" / "corpus.log").read_text()
    assert ended["JobState"] == "COMPLETED", log[-3000:]
    assert "2 of 2 files were read before" in log
    shares = [(run_dir / "logs" / f"corpus.{task}.log").read_text() for task in (0, 1)]
    assert all(f"read share {task}/2: 0/1 MB" in text and "file 1/1" in text for task, text in enumerate(shares))
    assert _manifest(run_dir, "corpus")["counts"]["dropped"]["duplicate URL"] >= 108  # the second file's pages


def test_the_whole_recipe_runs_as_a_chain_of_jobs(
    slurm_cluster: SlurmCluster, repository: Path, tmp_path: Path
) -> None:
    """`--executor slurm` from the pages to the report; then one stage by its script alone, as a user would start it."""
    run_dir = tmp_path / "run"
    overrides = [word for override in SMALLEST for word in ("--set", override)]
    command = [sys.executable, "-m", "pipeline.run", "--executor", "slurm", "--run-dir", str(run_dir), *overrides]
    environment = {**os.environ, **slurm_cluster.environment}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    made = {stage: _manifest(run_dir, stage) for stage in STAGES}
    assert [made[stage]["finished"] for stage in STAGES[:3]] == sorted(made[stage]["finished"] for stage in STAGES[:3])
    assert made["pretrain"]["world_size"] == 2
    assert (run_dir / "evals" / "report.md").is_file()

    environment = {"RUN_DIR": str(run_dir), "PYTHON": sys.executable}
    output = f"--output={tmp_path}/%j.out"
    job = slurm_cluster.submit(output, str(repository / "slurm" / "stage3_grpo.sh"), env=environment, cwd=repository)
    ended = slurm_cluster.wait(job, 300)
    log = (run_dir / "logs" / "grpo.log").read_text()
    assert (ended["JobState"], ended["NumNodes"]) == ("COMPLETED", "2"), log[-3000:]
    assert _manifest(run_dir, "grpo")["finished"] > made["evals"]["finished"]


def _manifest(run_dir: Path, stage: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((run_dir / stage / "manifest.json").read_text())
    return manifest


def _wait_for(files: list[Path], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while missing := [f.name for f in files if not (f.exists() and f.read_text())]:
        assert time.monotonic() < deadline, f"not written after {seconds} s: {missing}\n{_outputs(files[0].parent)}"
        time.sleep(0.1)


def _outputs(folder: Path) -> str:
    return "\n".join(p.read_text() for p in folder.glob("*.out"))
