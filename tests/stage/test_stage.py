"""A stage's life in a run directory: claim, work, publish; and the exit codes of its `main`."""

import json
import os
from pathlib import Path

import pytest
import yaml

from stage import Preempted, Stage, UsageError, sha256_file, stage_main


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "data.txt").write_text("data")
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump({"seed": 1}))
    plan(tmp_path, "first")
    return tmp_path


def plan(run_dir: Path, fingerprint: str) -> None:
    stage = {"fingerprint": fingerprint, "inputs": ["corpus"], "files": [str(run_dir / "data.txt")]}
    (run_dir / "plan.json").write_text(json.dumps({"stages": {"sft": stage}, "code_version": "c"}))
    (run_dir / "corpus").mkdir(exist_ok=True)
    (run_dir / "corpus" / "manifest.json").write_text("{}")


def test_published_manifest_names_what_went_in_and_came_out(run_dir: Path) -> None:
    stage = Stage("sft", run_dir)
    (stage.work / "out.bin").write_bytes(b"123")
    stage.read_file(run_dir / "plan.json")
    stage.counts |= {"in": 5, "out": 3}
    stage.drop("too long", 2)
    stage.metrics["loss"] = 0.5
    stage.publish()
    manifest = json.loads((run_dir / "sft" / "manifest.json").read_text())
    assert manifest["fingerprint"] == "first"
    assert manifest["counts"] == {"in": 5, "out": 3, "dropped": {"too long": 2}}
    assert manifest["metrics"] == {"loss": 0.5}
    assert [Path(f["path"]).name for f in manifest["inputs"]] == ["data.txt", "plan.json", "manifest.json"]
    out = {f["path"]: (f["size"], f["sha256"]) for f in manifest["outputs"]}
    assert out["out.bin"] == (3, sha256_file(run_dir / "sft" / "out.bin"))
    assert manifest["wall_seconds"] >= 0
    assert manifest["peak_memory_bytes"] > 1e6


def test_what_is_not_published_is_not_visible(run_dir: Path) -> None:
    stage = Stage("sft", run_dir)
    (stage.work / "half").write_text("")
    assert not (run_dir / "sft").exists()


def test_work_under_the_same_fingerprint_goes_on_and_under_another_begins_anew(run_dir: Path) -> None:
    (Stage("sft", run_dir).work / "checkpoint").write_text("")
    assert (Stage("sft", run_dir).work / "checkpoint").exists()
    plan(run_dir, "second")
    assert not (Stage("sft", run_dir).work / "checkpoint").exists()


def test_a_new_result_replaces_the_old_one_whole(run_dir: Path) -> None:
    for fingerprint, name in (("first", "a"), ("second", "b")):
        plan(run_dir, fingerprint)
        stage = Stage("sft", run_dir)
        (stage.work / name).write_text("")
        stage.publish()
    assert sorted(p for p in os.listdir(run_dir / "sft") if not p.startswith(".")) == [
        "b",
        "fingerprint",
        "manifest.json",
    ]
    assert os.listdir(run_dir / ".work") == []


def test_what_a_stage_resumes_from_is_not_published(run_dir: Path) -> None:
    stage = Stage("sft", run_dir)
    (stage.work / "resume").mkdir()
    with stage.progress("train", 1) as progress:
        progress.update(1)
    stage.publish()
    assert not (run_dir / "sft" / "resume").exists()
    assert not (run_dir / "sft" / "progress.json").exists()


def test_missing_inputs_are_one_line(run_dir: Path) -> None:
    stage = Stage("sft", run_dir)
    with pytest.raises(UsageError, match=r"sft: input stage 'pretrain' is not published in .*; run it first"):
        stage.input("pretrain")
    with pytest.raises(UsageError, match=r"sft: input file .*none does not exist"):
        stage.read_file(run_dir / "none")
    with pytest.raises(
        UsageError, match=r"profile.yaml does not exist; `python -m pipeline.run --run-dir .*` makes it"
    ):
        Stage("sft", run_dir / "elsewhere")


def test_only_rank_zero_publishes(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Stage("sft", run_dir)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    Stage("sft", run_dir).publish()
    assert not (run_dir / "sft").exists()


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (None, 0, ""),
        (UsageError("x.jsonl:3: no field 'text'"), 2, "error: x.jsonl:3: no field 'text'\n"),
        (Preempted("sft"), 75, "sft: preempted, will resume\n"),
    ],
)
def test_exit_codes(
    run_dir: Path, capsys: pytest.CaptureFixture[str], error: Exception | None, code: int, line: str
) -> None:
    def body(stage: Stage) -> None:
        if error:
            raise error

    assert stage_main("sft", body, ["--run-dir", str(run_dir)]) == code
    assert capsys.readouterr().err == line
    assert (run_dir / "sft").exists() == (code == 0)
