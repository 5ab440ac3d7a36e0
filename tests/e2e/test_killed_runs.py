"""Nothing is lost: stages and the rollout server are killed with SIGKILL, and the recipe still completes."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.processes import MARK
from tests.integration.test_slurm import SMALLEST, STAGES

pytestmark = pytest.mark.integration
LONGER = (  # long enough to be killed at work, with a checkpoint behind
    "pretrain.train_tokens=40960",
    "pretrain.save_interval=3",
    "sft.train_iters=12",
    "sft.save_interval=4",
    "grpo.train_iters=4",
    "grpo.save_interval=1",
)


class Run:
    """`python -m pipeline.run` as a child process, and everything it started."""

    def __init__(self, run_dir: Path, stages: str, repository: Path) -> None:
        self.run_dir, self.began = run_dir, time.time()
        overrides = [word for override in (*SMALLEST, *LONGER) for word in ("--set", override)]
        command = [sys.executable, "-m", "pipeline.run", "--run-dir", str(run_dir), "--stages", stages, *overrides]
        self.process = psutil.Popen(command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait(self) -> str:
        """Its output, once it has succeeded."""
        output = self.process.communicate(timeout=600)[0].decode()
        assert self.process.returncode == 0, output[-4000:]
        return output

    def wait_for_step(self, stage: str, done: int) -> bool:
        """Whether `stage` trains and has made `done` steps; False when the run ended before."""
        path = self.run_dir / ".work" / stage / "progress.json"
        while self.process.poll() is None:
            state = _read(path)
            ours = bool(state) and state["time"] > self.began  # not what a killed run left
            if ours and "train" in state["description"] and state["done"] >= done:
                return True
            time.sleep(0.01)
        return False

    def kill_server(self) -> None:
        """SIGKILL the SGLang server of the stage at work."""
        tree = self.process.children(recursive=True)
        servers = [process for process in tree if "evals.sglang_cpu" in process.cmdline()]
        assert servers
        for server in servers:
            _kill(server)

    def kill_everything(self) -> None:
        """SIGKILL the run, the stage, its workers and its server, all at once."""
        tree = [self.process, *self.process.children(recursive=True)]
        for process in tree:
            _kill(process)
        psutil.wait_procs(tree, timeout=20)
        for process in psutil.process_iter(["environ"]):  # workers in sessions of their own
            if str(self.run_dir) in (process.info["environ"] or {}).get(MARK, ""):
                _kill(process)
        self.process.communicate()


@pytest.fixture(scope="module")
def uninterrupted(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with corpus, pretrain and sft, made without a stop."""
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    Run(run_dir, "..sft", repository).wait()
    return run_dir


def test_pretrain_and_sft_killed_anywhere_give_the_losses_of_an_uninterrupted_run(
    repository: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    killed = tmp_path / "killed"
    rng = random.Random(os.getpid())  # another moment every time
    for stage, last in (("pretrain", 9), ("sft", 11)):
        run = Run(killed, "..sft", repository)
        assert run.wait_for_step(stage, rng.randint(1, last))
        run.kill_everything()
        assert not (killed / stage).exists()
    Run(killed, "..sft", repository).wait()
    for stage in ("pretrain", "sft"):
        assert _losses(killed, stage) == _losses(uninterrupted, stage)


def test_reward_grpo_and_the_server_killed_at_work_still_complete(
    repository: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    run_dir = shutil.copytree(uninterrupted, tmp_path / "run")
    run = Run(run_dir, "all", repository)
    assert run.wait_for_step("grpo", 2)
    run.kill_everything()
    run = Run(run_dir, "all", repository)
    assert run.wait_for_step("grpo", 2)
    run.kill_server()
    run.wait()
    manifests = {stage: _read(run_dir / stage / "manifest.json") for stage in STAGES}
    assert all(manifests.values())
    assert manifests["grpo"]["metrics"]["server_restarts"] == 1
    samples = [json.loads(line) for line in (run_dir / "grpo" / "samples.jsonl").read_text().splitlines()]
    assert [s["step"] for s in samples] == [step for step in range(1, 5) for _ in range(8)]
    assert {(s["step"], s["weight_version"]) for s in samples} == {(step, str(step - 1)) for step in range(1, 5)}

    again = Run(run_dir, "all", repository).wait()
    assert again.count("up to date") >= len(STAGES)


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def _losses(run_dir: Path, stage: str) -> list[tuple[int, float, float]]:
    lines = (run_dir / stage / "losses.jsonl").read_text().splitlines()
    return [(s["step"], s["loss"], s["grad_norm"]) for s in map(json.loads, lines)]


def _read(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return state
