"""How a question and its chain-of-thought answer become tokens.

    User: {question}\\n\\nAssistant: {solution}<eos>

The loss covers the solution and the end-of-sequence token, not the prompt (paper, section 3.2).
"""

from dataclasses import dataclass
from typing import Any

from evals.prompts import chat_prompt


@dataclass(frozen=True)
class Example:
    """Token ids of one training example; the loss is on the tokens from `answer_start` on."""

    tokens: list[int]
    answer_start: int


def encode_prompt(tokenizer: Any, question: str) -> list[int]:
    """Token ids of the prompt, the same in training, rollouts and evaluation."""
    ids: list[int] = tokenizer.encode(chat_prompt(question), add_special_tokens=False)
    return ids


def encode(tokenizer: Any, question: str, solution: str) -> Example:
    """One chain-of-thought example. Prompt and answer are tokenised apart, as at inference."""
    prompt = encode_prompt(tokenizer, question)
    answer = tokenizer.encode(solution, add_special_tokens=False)
    return Example([*prompt, *answer, tokenizer.eos_token_id], len(prompt))
