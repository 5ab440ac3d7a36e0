"""Whole runs of small real stages: what is skipped, what runs again, and what survives a kill."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline import processes
from pipeline.run_dir import RunDir

Runner = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.txt"
    path.write_text("1 2 3\n")
    return path


@pytest.fixture
def command(tmp_path: Path, data: Path) -> Callable[..., list[str]]:
    run_dir = tmp_path / "run"
    return lambda *args: [sys.executable, "-m", "tests.pipeline.steps.run", str(run_dir), str(data), *args]


@pytest.fixture
def run(command: Callable[..., list[str]], repository: Path) -> Runner:
    def runner(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command(*args), cwd=repository, env=os.environ | environment, capture_output=True, text=True, timeout=120
        )

    return runner


@pytest.fixture
def start(
    command: Callable[..., list[str]], repository: Path, tmp_path: Path
) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def starter(*args: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command(*args),
            cwd=repository,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        process.kill()
        process.communicate()
    for stage in ("corpus", "grpo", "evals"):
        RunDir(tmp_path / "run").stop_strays(stage)


def wait_for_count(run_dir: Path, stage: str, n: int) -> None:
    """Wait until the stage's checkpoint has reached `n`."""
    checkpoint, deadline = run_dir / ".work" / stage / "resume" / "count", time.monotonic() + 60
    while not (checkpoint.is_file() and int(checkpoint.read_text()) >= n):
        assert time.monotonic() < deadline, f"{stage} did not reach {n}"
        time.sleep(0.02)


def children_cpu_seconds() -> float:
    """Processor time of ended child processes: what wall time would be on an idle machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def manifest(run_dir: Path, stage: str) -> dict[str, object]:
    return json.loads((run_dir / stage / "manifest.json").read_text())  # type: ignore[no-any-return]


def said(result: "subprocess.CompletedProcess[str]", stage: str) -> str:
    """What the run said it does with a stage."""
    return next(line for line in result.stdout.splitlines() if line.startswith(f"{stage}: "))


def test_second_run_skips_everything_and_one_change_reruns_what_depends_on_it(run: Runner, data: Path) -> None:
    before, after = ("--set", "grpo.kl_coef=0.04"), ("--set", "grpo.kl_coef=0.02")
    first = run(*before)
    assert first.returncode == 0, first.stderr
    assert [said(first, s) for s in ("corpus", "grpo", "evals")] == [
        f"{s}: to run (never ran)" for s in ("corpus", "grpo", "evals")
    ]

    began = children_cpu_seconds()
    second = run(*before)
    assert children_cpu_seconds() - began < 2
    assert "everything is up to date, nothing was run" in second.stdout
    assert said(second, "grpo") == "grpo: skipped (up to date)"

    changed = run(*after)
    assert said(changed, "corpus") == "corpus: skipped (up to date)"
    assert said(changed, "grpo") == "grpo: to run (grpo.kl_coef changed 0.04 -> 0.02)"
    assert said(changed, "evals") == "evals: to run (input grpo changed)"

    data.write_text("1 2 3 4\n")
    again = run(*after)
    assert said(again, "corpus") == f"corpus: to run (input file {data} changed)"
    assert said(again, "grpo") == "grpo: to run (input corpus changed)"


def test_stage_is_refused_when_its_input_is_not_current(run: Runner) -> None:
    result = run("grpo")
    assert result.returncode == 2
    assert result.stderr == (
        "error: grpo: its input 'corpus' is not current (never ran); run it too: --stages corpus,grpo\n"
    )


def test_forced_stage_and_those_that_read_it_run_again(run: Runner, tmp_path: Path) -> None:
    run()
    forced = run("grpo", "--force", "grpo")
    assert said(forced, "grpo") == "grpo: to run (forced)"
    later = run()
    assert said(later, "corpus") == "corpus: skipped (up to date)"
    assert said(later, "grpo") == "grpo: skipped (up to date)"
    assert said(later, "evals") == "evals: to run (input grpo was made anew)"


def test_missing_input_file_stops_the_run_before_anything_starts(run: Runner, data: Path, tmp_path: Path) -> None:
    data.unlink()
    result = run()
    assert result.returncode == 2
    assert result.stderr == f"error: data: {data}: no such input file, which stage corpus needs\n"
    assert not (tmp_path / "run" / "plan.json").exists()


def test_input_file_deleted_after_publication_is_not_missed(run: Runner, data: Path) -> None:
    run()
    data.unlink()
    result = run("--set", "grpo.kl_coef=0.02")
    assert result.returncode == 0, result.stderr
    assert said(result, "corpus") == "corpus: skipped (up to date)"


@pytest.mark.parametrize(
    ("environment", "code", "why"),
    [
        ({"FAIL_AT": "2"}, 1, "RuntimeError: the count broke at 2"),
        ({"BAD_INPUT_AT": "1"}, 2, "numbers.txt: record 1: expected a number, got 'x'"),
    ],
)
def test_failed_stage_is_one_line_and_resumes(
    run: Runner, tmp_path: Path, environment: dict[str, str], code: int, why: str
) -> None:
    result, log = run(**environment), tmp_path / "run" / "logs" / "corpus.log"
    assert result.returncode == code
    assert result.stderr == f"error: corpus failed (exit code {code}): {why}; log {log}\n"
    assert not (tmp_path / "run" / "corpus").exists()

    again = run()
    assert again.returncode == 0
    assert said(again, "corpus") == "corpus: to run (interrupted, resumes)"


def test_stage_killed_at_work_resumes_from_its_checkpoint(
    start: Callable[..., "subprocess.Popen[str]"], run: Runner, tmp_path: Path
) -> None:
    process = start(STEPS="10", STEP_SECONDS="0.1")
    wait_for_count(tmp_path / "run", "corpus", 3)
    attempt = RunDir(tmp_path / "run").attempt("corpus")
    assert attempt is not None and attempt.pid is not None and attempt.alive()
    os.kill(attempt.pid, signal.SIGKILL)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGKILL
    assert "error: corpus failed (exit code 137): killed by SIGKILL; log" in stderr
    assert not (tmp_path / "run" / "corpus").exists()

    assert run(STEPS="10").returncode == 0
    metrics = manifest(tmp_path / "run", "corpus")["metrics"]
    assert isinstance(metrics, dict) and metrics["total"] == 10 and metrics["resumed_at"] >= 3


def test_killed_run_leaves_no_stage_behind_and_the_next_run_goes_on_at_once(
    start: Callable[..., "subprocess.Popen[str]"], run: Runner, tmp_path: Path
) -> None:
    process = start(STEPS="100000", STEP_SECONDS="0.1")
    wait_for_count(tmp_path / "run", "corpus", 2)
    process.kill()
    process.communicate()
    result = run(STEPS="5")
    assert result.returncode == 0, result.stderr
    assert processes.marked(RunDir(tmp_path / "run").mark("corpus")) == []
    assert manifest(tmp_path / "run", "corpus")["metrics"]["resumed_at"] >= 2  # type: ignore[index]


def test_interrupt_lets_the_stage_save_and_says_that_it_resumes(
    start: Callable[..., "subprocess.Popen[str]"], run: Runner, tmp_path: Path
) -> None:
    process = start(STEPS="100000", STEP_SECONDS="0.1")
    wait_for_count(tmp_path / "run", "corpus", 2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == (
        "stopping at the next checkpoint; once more kills the stage\n[1/3] corpus: stopped, its work is saved\n"
    )
    assert processes.marked(RunDir(tmp_path / "run").mark("corpus")) == []


def test_second_run_in_the_same_directory_is_refused(
    start: Callable[..., "subprocess.Popen[str]"], run: Runner, tmp_path: Path
) -> None:
    process = start(STEPS="100000", STEP_SECONDS="0.1")
    wait_for_count(tmp_path / "run", "corpus", 1)
    result = run()
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: run directory {tmp_path}/run is in use by process {process.pid} on ")


@pytest.mark.integration
def test_torchrun_stage_keeps_its_exit_codes_and_leaves_no_worker(
    start: Callable[..., "subprocess.Popen[str]"], run: Runner, tmp_path: Path
) -> None:
    assert run("corpus").returncode == 0
    process = start("grpo", "--torchrun", STEPS="100", STEP_SECONDS="0.1")
    wait_for_count(tmp_path / "run", "grpo", 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 75

    bad = run("grpo", "--torchrun", STEPS="100", BAD_INPUT_AT="90")
    assert bad.returncode == 2
    assert "grpo failed (exit code 2): numbers.txt: record 90: expected a number, got 'x'" in bad.stderr

    process = start("grpo", "--torchrun", STEPS="200", STEP_SECONDS="0.1")
    wait_for_count(tmp_path / "run", "grpo", 92)
    attempt = RunDir(tmp_path / "run").attempt("grpo")
    assert attempt is not None and attempt.pid is not None
    os.kill(attempt.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert process.returncode == 137
    assert processes.marked(RunDir(tmp_path / "run").mark("grpo")) == []
