"""Fingerprints and the reasons a stage runs for, over the real table of stages."""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from pipeline import plan
from pipeline.config import load_profile
from pipeline.decisions import Decision, decide
from pipeline.plan import PlannedStage, is_written, make_plan, write_plan
from pipeline.run_dir import RunDir
from pipeline.stages import STAGE_NAMES, InputFile
from tests.pipeline.graph import plan_in


def planned(path: Path, *overrides: str) -> dict[str, PlannedStage]:
    return {s.name: s for s in make_plan(load_profile("tiny", overrides), RunDir(path))}


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("grpo.kl_coef=0.5", ["grpo", "evals"]),
        ("reward.epochs=7", ["reward", "evals"]),
        ("sft.train_iters=123", ["sft", "reward", "grpo", "evals"]),
        ("pretrain.train_tokens=8192", ["pretrain", "sft", "reward", "grpo", "evals"]),
        ("pretrain.parallel.nproc_per_node=4", []),  # how, not what: a killed run goes on with another split
        ("pretrain.save_interval=7", []),
        ("corpus.dedup.seed=99", list(STAGE_NAMES)),
        ("evals.temperature=0.33", ["evals"]),
        ("server.request_timeout_seconds=77", ["reward", "grpo", "evals"]),
        ("slurm.time=77", []),
        ("name=other", []),
        ("seed=99", list(STAGE_NAMES)),
    ],
)
def test_a_setting_changes_the_fingerprints_of_exactly_what_depends_on_it(
    tmp_path: Path, override: str, changed: list[str]
) -> None:
    before, after = planned(tmp_path), planned(tmp_path, override)
    assert [n for n in STAGE_NAMES if before[n].fingerprint != after[n].fingerprint] == changed


def test_with_the_reward_model_as_reward_its_settings_change_grpo(tmp_path: Path) -> None:
    rewarded = "grpo.reward=reward_model"
    before, after = planned(tmp_path, rewarded), planned(tmp_path, rewarded, "reward.epochs=7")
    assert [n for n in STAGE_NAMES if before[n].fingerprint != after[n].fingerprint] == ["reward", "grpo", "evals"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.txt"
    path.write_text("1 2 3\n")
    return path


def published(run_dir: RunDir, stages: list[PlannedStage]) -> None:
    """Leave what a published stage leaves: a manifest with the fingerprint and what it was made from."""
    for stage in stages:
        inputs = [run_dir.path / name / "manifest.json" for name in stage.inputs]
        described = [{"path": str(p), "sha256": sha256(p.read_bytes()).hexdigest()} for p in inputs]
        output = run_dir.path / stage.name
        output.mkdir(parents=True, exist_ok=True)
        (output / "manifest.json").write_text(json.dumps({"fingerprint": stage.fingerprint, "inputs": described}))


def reasons(decisions: list[Decision]) -> list[tuple[bool, str]]:
    return [(d.run, d.reason) for d in decisions]


NAMES = ["corpus", "grpo", "evals"]


def decisions_after(tmp_path: Path, data: Path, *overrides: str) -> list[tuple[bool, str]]:
    """What is decided with `overrides` in a run directory where all was published without any."""
    run_dir, profile, stages = plan_in(tmp_path / "run", data)
    write_plan(stages, profile, run_dir)
    published(run_dir, stages)
    run_dir, _, now = plan_in(tmp_path / "run", data, *overrides)
    return reasons(decide(now, run_dir, NAMES))


def test_reasons_name_the_changed_setting_and_count_the_others(tmp_path: Path, data: Path) -> None:
    assert decisions_after(tmp_path, data) == [(False, "up to date")] * 3
    changes = ("grpo.kl_coef=0.5", "grpo.optimizer.lr=1")
    first, second, third = decisions_after(tmp_path, data, *changes)
    assert first == (False, "up to date")
    assert second[0] and second[1].startswith("grpo.optimizer.lr changed ") and second[1].endswith("(and 1 more)")
    assert third == (True, "input grpo changed")


def test_changed_code_is_a_reason(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir, profile, stages = plan_in(tmp_path / "run", data)
    write_plan(stages, profile, run_dir)
    published(run_dir, stages)
    monkeypatch.setattr(plan, "code_version", lambda module: f"edited {module.endswith('grpo')}")
    run_dir, _, now = plan_in(tmp_path / "run", data)
    assert reasons(decide(now, run_dir, NAMES))[0] == (True, "code changed")


def test_lost_output_is_made_again_with_what_depends_on_it(tmp_path: Path, data: Path) -> None:
    run_dir, profile, stages = plan_in(tmp_path / "run", data)
    write_plan(stages, profile, run_dir)
    published(run_dir, stages)
    (run_dir.path / "grpo" / "manifest.json").unlink()
    assert reasons(decide(stages, run_dir, NAMES)) == [
        (False, "up to date"),
        (True, "never ran"),
        (True, "input grpo runs"),
    ]


def test_fingerprint_is_the_hash_of_the_recorded_ingredients(tmp_path: Path, data: Path) -> None:
    run_dir, profile, stages = plan_in(tmp_path / "run", data)
    write_plan(stages, profile, run_dir)
    for stage in stages:
        text = (run_dir.path / ".plan" / f"{stage.fingerprint}.json").read_bytes()
        assert sha256(text).hexdigest() == stage.fingerprint


def test_writing_the_same_plan_again_touches_nothing(tmp_path: Path, data: Path) -> None:
    run_dir, profile, stages = plan_in(tmp_path / "run", data)
    assert not is_written(stages, profile, run_dir)
    write_plan(stages, profile, run_dir)
    before = {p: p.stat().st_mtime_ns for p in run_dir.path.rglob("*")}
    write_plan(stages, profile, run_dir)
    assert is_written(stages, profile, run_dir)
    assert {p: p.stat().st_mtime_ns for p in run_dir.path.rglob("*")} == before


def test_large_input_files_are_told_apart_by_size_and_time(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "HASH_LIMIT_BYTES", 3)
    _, _, before = plan_in(tmp_path / "run", data)
    assert "sha256" not in before[0].ingredients["files"][0]
    os.utime(data, ns=(1, 1))
    _, _, after = plan_in(tmp_path / "run", data)
    assert before[0].fingerprint != after[0].fingerprint


def test_input_files_may_be_a_file_a_folder_or_a_glob(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".hidden", "deep/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    expanded = {p: [f.name for f in InputFile("k", p).expand()] for p in (
        str(tmp_path), f"{tmp_path}/*.txt", f"{tmp_path}/**/*.txt", f"{tmp_path}/a.txt", f"{tmp_path}/none*",
    )}  # fmt: skip
    assert list(expanded.values()) == [
        ["a.txt", "b.txt", "c.txt"],
        ["a.txt", "b.txt"],
        ["a.txt", "b.txt", "c.txt"],
        ["a.txt"],
        [],
    ]


def test_launch_prints_what_the_slurm_scripts_evaluate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    run_dir = str(tmp_path / "run")
    assert plan.main(["--profile", "tiny", "--run-dir", run_dir, "--set", "sft.parallel.nproc_per_node=1"]) == 0
    assert plan.main(["--run-dir", run_dir, "--launch", "sft"]) == 0
    assert capsys.readouterr().out == "module=sft.train torchrun=1 nnodes=1 nproc_per_node=1\n"
    assert plan.main(["--run-dir", run_dir, "--launch", "sfft"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown stage 'sfft'; did you mean 'sft'?")


def test_launch_leaves_the_plan_of_a_queued_job_alone(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code may be edited while a job waits, and the run that submitted it holds the lock."""
    monkeypatch.chdir(repository)
    run_dir = RunDir(tmp_path / "run")
    assert plan.main(["--profile", "tiny", "--run-dir", str(run_dir.path)]) == 0
    before = run_dir.plan()
    monkeypatch.setattr(plan, "code_version", lambda module: "edited")
    with run_dir.lock():
        assert plan.main(["--run-dir", str(run_dir.path), "--launch", "sft"]) == 0
    assert run_dir.plan() == before
