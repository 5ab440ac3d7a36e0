# ruff: noqa: E501 - a message is one line, and so it is here
"""Profiles: what is shipped is valid, and everything wrong is one line that says what would do."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline.config import PROFILES, load_profile
from stage import UsageError

SHIPPED = sorted(p.stem for p in PROFILES.glob("*.yaml"))


def problem(*overrides: str, profile: str = "7b") -> str:
    with pytest.raises(UsageError) as error:
        load_profile(profile, overrides)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_are_valid_and_resolve_to_themselves(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    assert profile.name == name
    resolved = tmp_path / "profile.yaml"
    resolved.write_text(yaml.safe_dump(profile.raw(), sort_keys=False, allow_unicode=True))
    assert load_profile(resolved) == profile


def test_7b_has_the_papers_figures() -> None:
    p = load_profile("7b")
    assert (p.pretrain.train_tokens, p.pretrain.optimizer.lr, p.pretrain.optimizer.lr_warmup_steps) == (
        5e11,
        4.2e-4,
        2000,
    )
    assert (p.sft.train_iters, p.sft.global_batch_size, p.sft.optimizer.lr) == (500, 256, 5e-5)
    assert (p.reward.optimizer.lr, p.reward.num_completions) == (2e-5, 8)
    assert (p.grpo.group_size, p.grpo.kl_coef, p.grpo.optimizer.lr) == (64, 0.04, 1e-6)
    assert (p.grpo.max_new_tokens, p.grpo.global_batch_size) == (1024, 1024)
    assert [s.weight for s in p.corpus.sources] == [0.56, 0.04, 0.10, 0.20, 0.10]


@pytest.mark.parametrize("name", ["7b", "1.3b"])
def test_the_corpus_is_cleaned_of_every_benchmark_that_is_measured(name: str, repository: Path) -> None:
    measured = {p.stem for p in (repository / "evals" / "benchmarks").glob("*.yaml")}
    removed = {b.name for b in load_profile(name).corpus.decontamination.benchmarks}
    assert measured - {"word_problems", "math500"} == removed  # generated; a part of math


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("grpo.kl_cof=0.1", "grpo.kl_cof: unknown key (got 0.1); did you mean grpo.kl_coef?"),
        ("grpo.lr=1e-6", "grpo.lr: unknown key (got 1e-06); did you mean grpo.optimizer.lr?"),
        ("grop.kl_coef=0.1", "grop: unknown key (got {'kl_coef': 0.1}); did you mean grpo?"),
        ("slurm.stages.grop.time=1", "slurm.stages.grop: expected 'corpus', 'pretrain', 'sft', 'reward', 'grpo' or 'evals', got 'grop'"),
        ("grpo.group_size=many", "grpo.group_size: expected an integer, got 'many'"),
        ("grpo.group_size=1", "grpo.group_size: expected greater than or equal to 2, got 1"),
        ("grpo.kl_coef=nan", "grpo.kl_coef: expected a finite number, got 'nan'"),
        ("grpo.kl_coef=-1", "grpo.kl_coef: expected greater than or equal to 0, got -1"),
        ("grpo.reward=rules", "grpo.reward: expected 'rule' or 'reward_model', got 'rules'"),
        ("pretrain.precision.dtype=fp16", "pretrain.precision.dtype: expected 'fp32' or 'bf16', got 'fp16'"),
        ("grpo.optimizer=3", "grpo.optimizer: expected a mapping with keys of lr, lr_schedule, "),
        ("tokenizer=3", "tokenizer: expected a string, got 3"),
        ("sft.sources=null", "sft.sources: expected a list, got None"),
        ("pretrain.recompute_activations=maybe", "pretrain.recompute_activations: expected true or false, got 'maybe'"),
        ("corpus.sources.0.weight=0.5", "corpus.sources: the weights add up to 0.94, not 1"),
        ("corpus.sources.9.weight=0.5", "corpus.sources.9: corpus.sources is a list of 5; expected an index from 0 to 4"),
        ("sft.global_batch_size=255", "sft.global_batch_size 255 is not a multiple of micro_batch_size 2 * data-parallel size 4"),
        ("sft.parallel.nproc_per_node=3", "sft.parallel: 6 processes are not a multiple of "),
        ("model.num_attention_heads=33", "model.hidden_size 4096 is not a multiple of num_attention_heads 33"),
        ("seed.a=1", "seed: has no keys, it is 1234 (--set seed.a=1)"),
        ("grpo.kl_coef", "--set grpo.kl_coef: expected KEY.SUBKEY=VALUE, as in grpo.kl_coef=0.02"),
        ("grpo.kl_coef=[", "--set grpo.kl_coef=[: '[' is not a YAML value; quote it"),
        ("slurm.time=soon", "slurm.time: expected a time limit such as 30 (minutes), 12:00:00 or 2-00:00:00, got 'soon'"),
        ("grpo.max_new_tokens=2048", "grpo.max_new_tokens: 2048 leaves no room for the question in grpo.seq_length 2048"),
        ("grpo.seq_length=4096", "grpo.seq_length: 4096 leaves the rollout server, whose context is 4096, no room; use at most 4095"),
        ("reward.seq_length=3076", "reward.seq_length: 3076 leaves the rollout server, whose context is 4096, no room; use at most 3072"),
        ("server.context_length=2048", "reward.seq_length: 2048 leaves the rollout server, whose context is 2048, no room; use at most 1024"),
        ("sft.seq_length=8192", "sft.seq_length: 8192 is more than model.max_position_embeddings 4096"),
        ("model.vocab_size=102401", "pretrain.parallel.tensor_model_parallel_size: 4 does not divide model.vocab_size 102401; pad it to 102404, or use 1, 13 (and 3 more)"),
        (
            "pretrain.parallel.pipeline_model_parallel_size=4",
            "pretrain.parallel.pipeline_model_parallel_size: 4 does not divide model.num_layers 30; use 1, 2, 3, 5, 6, 10, 15, 30",
        ),
    ],
)  # fmt: skip
def test_one_wrong_setting_is_one_line(override: str, message: str) -> None:
    assert problem(override).startswith(message)


def test_several_problems_are_counted_behind_the_first() -> None:
    assert problem("grpo.nonsense=1", "sft.train_iters=0").endswith(" (and 1 more)")


def test_tensor_parallel_size_that_cuts_a_query_group() -> None:
    overrides = ["pretrain.parallel.nproc_per_node=2", "pretrain.parallel.tensor_model_parallel_size=2"]
    assert problem(*overrides, profile="smollm2-135m") == (
        "pretrain.parallel.tensor_model_parallel_size: 2 does not divide model.num_attention_heads 9; use 1 (and 1 more)"
    )


def test_model_too_small_for_the_tokenizer() -> None:
    assert problem("model.vocab_size=1000", profile="tiny") == (
        "model.vocab_size: 1000 is too small for tokenizer examples/tokenizer, whose highest token id is 1023; "
        "use at least 1024"
    )


def test_broken_tokenizer_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    assert problem(f"tokenizer={tmp_path}", profile="tiny") == (
        f"tokenizer: {tmp_path}/tokenizer.json is not a Hugging Face tokenizer (KeyError('model'))"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "expected a mapping of profile keys, got ['a']"),
        ("name: [\n", "not YAML: while parsing a flow node"),
        ("seed: 1\nname: a\nseed: 2\n", "not YAML: key 'seed' stands twice"),
    ],
)
def test_file_that_is_no_profile(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    assert problem(profile=str(tmp_path / "mine.yaml")).startswith(f"{tmp_path}/mine.yaml: {message}")


def test_unknown_profile_names_those_there_are() -> None:
    assert problem(profile="tinny") == (
        f"--profile: no profile 'tinny'; did you mean tiny? there are {', '.join(SHIPPED)}, or give a .yaml file"
    )
    assert problem(profile="no/such.yaml") == "--profile: no file no/such.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-6", 1e-6), ("2.5e3", 2500.0), (".5", 0.5), ("1_000", 1000), ("-3", -3), ("true", True), ("null", None),
     ("24:00:00", "24:00:00"), ("1-00:00:00", "1-00:00:00"), ("[1, 2]", [1, 2]), ("1e", "1e"), ("1.3b", "1.3b")],
)  # fmt: skip
def test_override_values_are_read_as_people_write_them(text: str, value: object) -> None:
    from pipeline.config import apply_override

    raw: dict[str, object] = {}
    apply_override(raw, f"a.b={text}")
    assert raw == {"a": {"b": value}}
    inner = raw["a"]
    assert isinstance(inner, dict) and type(inner["b"]) is type(value)


def test_wrong_key_ends_the_command_with_one_line_and_code_2(repository: Path) -> None:
    command = [sys.executable, "-m", "pipeline.run", "--profile", "tiny", "--set", "grpo.nonsense=1"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: grpo.nonsense: unknown key (got 1); ")
    assert done.stderr.count("\n") == 1
