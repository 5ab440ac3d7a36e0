"""From a file of questions and solutions to what the loss covers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from sft.config import SftSource
from sft.data import read_examples
from sft.formats import encode
from sft.packing import PackedStream
from stage import Stage, UsageError

MakeStage = Callable[[str, dict[str, Any]], Stage]


@pytest.fixture(scope="module")
def tokenizer(repository: Path) -> Any:
    return AutoTokenizer.from_pretrained(repository / "examples" / "tokenizer")


def test_the_loss_covers_the_solution_and_the_end_of_text_and_nothing_else(tokenizer: Any) -> None:
    example = encode(tokenizer, "1 + 1 = ?", "It is 2.\n#### 2")
    packed = PackedStream([example], seq_length=len(example.tokens) + 5, pad_id=tokenizer.eos_token_id, seed=1)[0]
    learnt = packed["labels"][packed["loss_mask"] == 1].tolist()
    assert learnt[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(learnt[:-1]) == "It is 2.\n#### 2"
    assert tokenizer.decode(example.tokens[: example.answer_start]) == "User: 1 + 1 = ?\n\nAssistant: "


def test_examples_too_long_for_a_sequence_are_dropped_and_counted(
    tmp_path: Path, make_stage: MakeStage, tokenizer: Any
) -> None:
    path, stage = tmp_path / "train.jsonl", make_stage("sft", {})
    lines = [{"q": "1?", "a": "1"}, {"q": "2?", "a": "2 " * 200}, {"q": "3?", "a": "3"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = SftSource(name="own", path=str(path), question_key="q", solution_key="a")
    assert len(read_examples(stage, [source], tokenizer, seq_length=60, seed=1)) == 2
    assert (stage.counts["in"], stage.counts["out"]) == (3, 2)
    assert dict(stage.counts["dropped"]) == {"longer than seq_length 60": 1}
    with pytest.raises(UsageError, match="no example fits in seq_length 10"):
        read_examples(stage, [source], tokenizer, seq_length=10, seed=1)


def test_a_record_without_a_solution_is_named(tmp_path: Path, make_stage: MakeStage, tokenizer: Any) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"question": "1?", "solution": "1"}\n{"question": "2?", "solution": " "}\n')
    with pytest.raises(UsageError, match=r"train.jsonl:2: 'solution' must be a non-empty string, got ' '"):
        read_examples(make_stage("sft", {}), [SftSource(name="own", path=str(path))], tokenizer, 60, seed=1)
