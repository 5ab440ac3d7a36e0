"""The rule reward: 1 for a right final answer, 0 otherwise (the paper's accuracy reward)."""

from typing import Any

from evals import is_correct
from evals.extraction import extract_answer


def rule_reward(text: str, gold: str) -> float:
    """1.0 when the final answer in `text` equals `gold`, else 0.0 (also when there is no final answer)."""
    answer = extract_answer(text)
    return 1.0 if answer is not None and is_correct(gold, answer) else 0.0


def decode(tokenizer: Any, output_ids: list[int]) -> str:
    """The text of an output, without its end-of-sequence token."""
    text: str = tokenizer.decode(output_ids, skip_special_tokens=True)
    return text
