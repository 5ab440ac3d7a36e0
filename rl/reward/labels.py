"""Math-Shepherd's step labels: a step is as good as what can still be reached from it."""

from collections.abc import Sequence
from typing import Any


def estimate(correct: Sequence[bool], label: str) -> float:
    """The label y of a step from its N completions, a_j equal to the gold answer a* or not.

    hard: y = 1 if any a_j = a*, else 0. soft: y = (1/N) sum_j 1[a_j = a*]. Math-Shepherd (2312.08935), equations 3, 4.
    Raises ValueError without completions or for another `label`.
    """
    if not correct:
        raise ValueError("a step needs at least one completion")
    if label == "hard":
        return float(any(correct))
    if label == "soft":
        return sum(correct) / len(correct)
    raise ValueError(f"label must be 'hard' or 'soft', got {label!r}")


def split_steps(output_ids: Sequence[int], breaks: frozenset[int]) -> list[list[int]]:
    """Cut an output's tokens into steps: a step ends with a token of `breaks` (those that hold a line feed).

    The concatenation of the steps is the output; steps of blank lines join the step before them.
    """
    steps: list[list[int]] = []
    current: list[int] = []
    for i, token in enumerate(output_ids):
        current.append(token)
        next_is_break = i + 1 < len(output_ids) and output_ids[i + 1] in breaks
        if token in breaks and not next_is_break:
            steps.append(current)
            current = []
    if current:
        steps.append(current)
    return steps


def join_steps(steps: Sequence[list[int]]) -> list[int]:
    """The tokens of an output that `split_steps` cut up."""
    return [token for step in steps for token in step]


def line_break_tokens(tokenizer: Any) -> frozenset[int]:
    """The tokens whose text holds a line feed."""
    return frozenset(i for i in range(len(tokenizer)) if "\n" in tokenizer.decode([i]))
