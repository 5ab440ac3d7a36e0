"""What `pipeline.status` says about each stage of a run directory."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import processes
from pipeline.figures import of_manifest
from pipeline.plan import PlannedStage, write_plan
from pipeline.run_dir import Attempt, RunDir
from pipeline.status import state_of
from tests.pipeline.graph import plan_in


@pytest.fixture
def planned(tmp_path: Path) -> tuple[RunDir, PlannedStage]:
    """A planned run in which nothing has started, and its stage corpus."""
    data = tmp_path / "numbers.txt"
    data.write_text("1\n")
    run_dir, profile, stages = plan_in(tmp_path / "run", data)
    write_plan(stages, profile, run_dir)
    return run_dir, stages[0]


def begin_work(run_dir: RunDir, stage: PlannedStage, age_seconds: float = 0) -> None:
    work = run_dir.path / ".work" / "corpus"
    work.mkdir(parents=True)
    (work / "fingerprint").write_text(stage.fingerprint)
    state = {"description": "corpus: counting", "done": 3, "total": 9, "unit": "pages", "rate": 2.0}
    state |= {"eta_seconds": 3.0, "fields": {"kept": "1"}, "time": time.time() - age_seconds}
    (work / "progress.json").write_text(json.dumps(state))


def attempt_of(stage: PlannedStage) -> Attempt:
    ticks = processes.start_ticks(os.getpid())
    return Attempt(stage.fingerprint, os.uname().nodename, time.time(), pid=os.getpid(), pid_ticks=ticks)


def test_stage_that_nobody_started_waits(planned: tuple[RunDir, PlannedStage]) -> None:
    assert state_of(planned[0], "corpus") == ("waiting", "")


def test_running_stage_shows_its_process_and_progress(planned: tuple[RunDir, PlannedStage]) -> None:
    run_dir, stage = planned
    begin_work(run_dir, stage)
    run_dir.write_attempt("corpus", attempt_of(stage))
    about = f"process {os.getpid()}; counting: 3/9 pages, 2/s, ETA 0:03  kept 1"
    assert state_of(run_dir, "corpus") == ("running", about)


def test_process_id_used_again_by_another_process_is_not_the_stage(planned: tuple[RunDir, PlannedStage]) -> None:
    run_dir, stage = planned
    begin_work(run_dir, stage, age_seconds=3600)
    attempt = attempt_of(stage)
    run_dir.write_attempt("corpus", replace(attempt, pid_ticks=(attempt.pid_ticks or 0) - 1))
    state, about = state_of(run_dir, "corpus")
    assert state == "interrupted" and about.startswith("resumes; was at counting: 3/9 pages")


@pytest.mark.parametrize(("code", "state"), [(2, "failed"), (75, "preempted")])
def test_ended_attempt_shows_its_reason(planned: tuple[RunDir, PlannedStage], code: int, state: str) -> None:
    run_dir, stage = planned
    begin_work(run_dir, stage)
    run_dir.write_attempt("corpus", replace(attempt_of(stage), exit_code=code, error="numbers.txt: no numbers"))
    assert state_of(run_dir, "corpus") == (state, "numbers.txt: no numbers")


@pytest.mark.parametrize(("same", "state"), [(True, "published"), (False, "stale")])
def test_published_stage_shows_its_first_metrics(planned: tuple[RunDir, PlannedStage], same: bool, state: str) -> None:
    run_dir, stage = planned
    (run_dir.path / "corpus").mkdir()
    metrics = {"pages": 120, "curve": [[1, 2.0]], "recall": 0.98765}
    manifest = {"fingerprint": stage.fingerprint if same else "other", "metrics": metrics, "wall_seconds": 75.0}
    manifest["stage"] = "corpus"
    (run_dir.path / "corpus" / "manifest.json").write_text(json.dumps(manifest))
    assert state_of(run_dir, "corpus") == (state, "pages 120  recall 0.9877")


def test_the_telling_metrics_come_first() -> None:
    manifest = {
        "stage": "grpo",
        "metrics": {"clip_fraction": 0.1, "entropy": 0.2, "loss": 3.0, "reward": 0.5, "kl": 0.01},
    }
    assert of_manifest(manifest) == "reward 0.5  kl 0.01  entropy 0.2  clip_fraction 0.1"


def test_commands_answer_without_importing_anything_heavy(
    repository: Path, planned: tuple[RunDir, PlannedStage]
) -> None:
    for module, argument in (("run", "--help"), ("plan", "--help"), ("status", str(planned[0].path))):
        code = (
            f"import runpy, sys; sys.argv = ['x', {argument!r}]\n"
            f"try: runpy.run_module('pipeline.{module}', run_name='__main__')\n"
            "except SystemExit: pass\n"
            "heavy = {'torch', 'megatron', 'sglang', 'transformers', 'pydantic', 'numpy'} & set(sys.modules)\n"
            "assert not heavy, heavy"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_table_has_every_stage_and_works_without_a_terminal(
    repository: Path, planned: tuple[RunDir, PlannedStage]
) -> None:
    command = [sys.executable, "-m", "pipeline.status", str(planned[0].path)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows[1:] == [[s, "waiting"] for s in ("corpus", "pretrain", "sft", "reward", "grpo", "evals")]


def test_folder_that_is_no_run_directory_is_one_line(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline.status", str(tmp_path)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path}: not a run directory (no plan.json); `python -m pipeline.run` makes one\n"
    )
