"""What the rollout server would refuse, or the trainer could not hold, is left out beforehand and counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rl.config import GrpoConfig
from rl.questions import read_questions
from stage import Stage, UsageError

MakeStage = Callable[[str, dict[str, Any]], Stage]


@pytest.fixture(scope="module")
def tokenizer(repository: Path) -> Any:
    return AutoTokenizer.from_pretrained(repository / "examples" / "tokenizer")


def config(path: Path, seq_length: int) -> GrpoConfig:
    return GrpoConfig.model_validate({"seq_length": seq_length, "max_new_tokens": 50, "questions": {"path": str(path)}})


def test_a_question_without_room_for_its_answer_is_dropped_and_counted(
    tmp_path: Path, make_stage: MakeStage, tokenizer: Any
) -> None:
    path, stage = tmp_path / "questions.jsonl", make_stage("grpo", {})
    texts = ["1 + 1 = ?", "What is " + "1 + " * 100 + "1?", "2 + 2 = ?"]
    path.write_text("".join(json.dumps({"question": t, "answer": 2}) + "\n" for t in texts))
    questions = read_questions(stage, config(path, 100), tokenizer, seed=1)
    assert [q.text for q in questions] == [texts[0], texts[2]]
    assert dict(stage.counts["dropped"]) == {"question longer than seq_length - max_new_tokens = 50 tokens": 1}
    longest = len(questions[0].prompt_ids)
    assert len(read_questions(stage, config(path, 50 + longest), tokenizer, seed=1)) == 2  # exactly fits
    with pytest.raises(UsageError, match="none of 3 fits in seq_length - max_new_tokens = 5"):
        read_questions(stage, config(path, 55), tokenizer, seed=1)


def test_a_record_without_a_question_is_named(tmp_path: Path, make_stage: MakeStage, tokenizer: Any) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"question": "1?", "answer": 1}\n{"problem": "2?", "answer": 2}\n')
    with pytest.raises(UsageError, match=r"questions.jsonl:2: expected 'question' .* got keys \['answer', 'problem'\]"):
        read_questions(make_stage("grpo", {}), config(path, 100), tokenizer, seed=1)
