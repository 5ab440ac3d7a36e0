"""`--executor slurm` on a real two-node Slurm: a chain of small stages with dependencies, its failures and resumes."""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.executors.slurm import SlurmExecutor, job_state
from pipeline.plan import PlannedStage, write_plan
from pipeline.run_dir import RunDir
from pipeline.status import state_of
from tests.integration.slurm_cluster import SlurmCluster
from tests.pipeline.graph import plan_in

pytestmark = pytest.mark.integration
SCRIPT = """#!/bin/bash
cd "$MATHMILL_HOME"
echo "$(date +%FT%T) job $SLURM_JOB_ID (start $((${SLURM_RESTART_COUNT:-0} + 1))): STAGE"
exec "$PYTHON" -m tests.pipeline.steps.STAGE --run-dir "$RUN_DIR"
"""


class Chain:
    """The small graph corpus -> grpo -> evals, with a script for each stage in place of slurm/."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "numbers.txt"
        self.data.write_text("1 2 3\n")
        for stage in ("corpus", "grpo", "evals"):
            (folder / f"{stage}.sh").write_text(SCRIPT.replace("STAGE", stage))

    def run(self, **environment: str) -> tuple[int, RunDir, list[PlannedStage]]:
        """Plan the chain and run it as jobs; the exit code, the run directory and the plan."""
        run_dir, profile, stages = plan_in(self.folder / "run", self.data, "slurm.gpus_per_node=0", "slurm.time=5")
        write_plan(stages, profile, run_dir)
        executor = SlurmExecutor(run_dir, profile, scripts=self.folder)
        os.environ.update(environment)
        try:
            return executor.run(stages), run_dir, stages
        finally:
            for name in environment:
                del os.environ[name]


@pytest.fixture
def chain(slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    for key, value in slurm_cluster.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr("pipeline.executors.slurm.POLL_SECONDS", 0.3)
    yield Chain(tmp_path)


def test_chain_publishes_in_order_and_a_failure_stops_what_waits_for_it(
    chain: Chain, capsys: pytest.CaptureFixture[str]
) -> None:
    code, run_dir, stages = chain.run(STEPS="4", BAD_INPUT_AT="2")
    assert code == 2
    job = run_dir.attempt("corpus").job  # type: ignore[union-attr]
    assert capsys.readouterr().err == (
        f"error: corpus failed (job {job}): numbers.txt: record 2: expected a number, got 'x'; "
        f"log {run_dir.path}/logs/corpus.log\n"
    )
    assert state_of(run_dir, "corpus") == ("failed", "numbers.txt: record 2: expected a number, got 'x'")
    assert not (run_dir.path / "grpo").exists()

    code, run_dir, stages = chain.run(STEPS="4", STEP_SECONDS="0.2")
    assert code == 0
    manifests = [json.loads((run_dir.path / s.name / "manifest.json").read_text()) for s in stages]
    assert [m["metrics"]["total"] for m in manifests] == [4, 8, 12]
    assert manifests[0]["metrics"]["resumed_at"] == 2
    assert [m["fingerprint"] for m in manifests] == [s.fingerprint for s in stages]
    assert all(a["finished"] <= b["started"] for a, b in pairwise(manifests))
    assert [state_of(run_dir, s.name)[0] for s in stages] == ["published"] * 3
    assert "after" in capsys.readouterr().out


def test_running_job_is_watched_again_and_not_submitted_twice(chain: Chain, slurm_cluster: SlurmCluster) -> None:
    run_dir, profile, stages = plan_in(chain.folder / "run", chain.data, "slurm.gpus_per_node=0", "slurm.time=5")
    write_plan(stages, profile, run_dir)
    executor = SlurmExecutor(run_dir, profile, scripts=chain.folder)
    os.environ.update({"STEPS": "20", "STEP_SECONDS": "0.2"})
    try:
        job = executor._submit(stages[0], [])
    finally:
        del os.environ["STEPS"], os.environ["STEP_SECONDS"]
    slurm_cluster.wait_until_running(job)
    assert state_of(run_dir, "corpus")[0] == "running"
    assert executor.run(stages[:1]) == 0
    assert run_dir.attempt("corpus").job == job  # type: ignore[union-attr]
    assert job_state(job) is None
    assert state_of(run_dir, "corpus")[0] == "published"
