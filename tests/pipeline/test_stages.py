"""The table of stages and the ranges of it that a user may name."""

import ast
from pathlib import Path

import pytest

from pipeline.config import load_profile
from pipeline.source import source_files
from pipeline.stages import STAGES, StageSpec, select
from stage import UsageError

ALL = ["corpus", "pretrain", "sft", "reward", "grpo", "evals"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("all", ALL),
        ("grpo,evals", ["grpo", "evals"]),
        ("evals, grpo", ["grpo", "evals"]),
        ("sft..", ["sft", "reward", "grpo", "evals"]),
        ("..sft", ["corpus", "pretrain", "sft"]),
        ("sft..grpo", ["sft", "reward", "grpo"]),
        ("corpus,reward..grpo", ["corpus", "reward", "grpo"]),
        ("..", ALL),
    ],
)
def test_stage_expressions(expression: str, names: list[str]) -> None:
    assert select(expression) == names


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("pretrian", "unknown stage 'pretrian'; did you mean 'pretrain'? stages are " + ", ".join(ALL)),
        ("sft..xyz", "unknown stage 'xyz'; stages are " + ", ".join(ALL)),
        ("", "unknown stage ''; stages are " + ", ".join(ALL)),
        ("grpo..sft", "--stages: 'grpo..sft' runs backwards; sft comes before grpo"),
    ],
)
def test_wrong_stage_expressions_are_one_line(expression: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        select(expression)
    assert str(error.value) == message


def test_grpo_reads_the_reward_model_only_when_it_rewards_with_it() -> None:
    grpo = next(s for s in STAGES if s.name == "grpo")
    assert grpo.inputs(load_profile("tiny", ["grpo.reward=rule"])) == ("sft",)
    assert grpo.inputs(load_profile("tiny", ["grpo.reward=reward_model"])) == ("sft", "reward")


@pytest.mark.parametrize("spec", STAGES, ids=lambda s: s.name)
def test_every_section_a_stage_reads_is_in_its_fingerprint(spec: StageSpec, repository: Path) -> None:
    """`stage.section("x", …)` and `stage.profile["x"]` in a stage's code: x counts, its own or through its inputs."""
    profile = load_profile("tiny", ["grpo.reward=reward_model"])
    table, covered, todo = {s.name: s for s in STAGES}, set(), [spec.name]
    while todo:
        current = table[todo.pop()]
        covered |= set(current.sections)
        todo += current.inputs(profile)
    own = [p for p in source_files(spec.module) if p.suffix == ".py" and p.relative_to(repository).parts[0] != "stage"]
    assert set().union(*(sections_read(p) for p in own)) - {"name"} <= covered


def sections_read(path: Path) -> set[str]:
    """The profile keys that a source file asks a stage for by literal name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="section"), args=[ast.Constant(value=str(key)), *_]):
                found.add(key)
            case ast.Subscript(value=ast.Attribute(attr="profile"), slice=ast.Constant(value=str(key))):
                found.add(key)
    return found


def test_the_reader_of_sections_sees_them(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text('a = stage.section("grpo", C)\nb = int(stage.profile["seed"])\n')
    assert sections_read(tmp_path / "x.py") == {"grpo", "seed"}


def test_slurm_scripts_of_the_table_exist(repository: Path) -> None:
    assert [s.script for s in STAGES if not (repository / "slurm" / s.script).is_file()] == []
