"""Samples of an imaginary run, made from a seed, for the tests of scoring and report."""

import random
from collections.abc import Callable
from typing import Any

import pytest

RATES = {"pretrain": 0.02, "sft": 0.5, "grpo": 0.8}


@pytest.fixture(scope="session")
def lines() -> Callable[..., list[dict[str, Any]]]:
    """A maker of samples: lines(benchmark, checkpoint, problems=60, samples=8)."""
    return _lines


def _lines(benchmark: str, checkpoint: str, problems: int = 60, samples: int = 8) -> list[dict[str, Any]]:
    """Greedy and sampled lines; the share of right answers is RATES[checkpoint], a tenth of it on gsm8k."""
    rate = RATES[checkpoint] * (0.02 if benchmark == "gsm8k" else 1.0)
    draw = random.Random(f"{benchmark}-{checkpoint}")
    made = []
    for i in range(problems):
        for mode, n in (("greedy", 1), ("sampled", samples)):
            completions = [_completion(draw.random() < rate, i, draw) for _ in range(n)]
            made.append(
                {
                    "id": str(i),
                    "mode": mode,
                    "level": str(2 + i % 2),
                    "subject": "en" if i % 3 else "zh",
                    "question": f"What is {i} + 1? </script> & <b>bold</b> 多少?",
                    "gold": str(i + 1),
                    "prompt_tokens": 20,
                    "skipped": None,
                    "completions": completions,
                }
            )
    return made


def _completion(right: bool, i: int, draw: random.Random) -> dict[str, Any]:
    answer = str(i + 1) if right else draw.choice([str(i), str(i + 2), None])
    return {
        "text": f"{i} + 1 = {answer}\n#### {answer}" if answer else "I do not",
        "answer": answer,
        "correct": right,
        "finish_reason": "stop" if answer else "length",
        "tokens": draw.randint(5, 60),
    }
