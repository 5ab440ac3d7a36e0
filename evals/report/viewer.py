"""What the page's viewer holds: answers to the benchmarks and rollouts of GRPO, packed small for embedding.

Out: {"questions": [text], "answers": [row], "rollouts": [row]}; a row names its question by number. Keys of a row:

    q question   g gold   a answer or null   r right?   t output   n tokens   f "length" when cut off
    answers:   b benchmark   c checkpoint   m greedy | sampled   i problem id
    rollouts:  p training step   h group   w reward   d advantage   s [[text, advantage], ...] where steps differ
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from evals.report.content import Samples
from evals.report.rollouts import Rollouts, judged

LONGEST_TEXT = 3000  # characters of one output
Row = dict[str, Any]


def viewer_data(samples: Samples, cap: int, rollouts: Rollouts) -> dict[str, list[Any]]:
    """At most `cap` answers, and the rollouts given."""
    questions: dict[str, int] = {}
    answers = list(_answers(samples, cap, questions))
    outputs = [_rollout(line, number, questions) for number, group in enumerate(rollouts.groups) for line in group]
    return {"questions": list(questions), "answers": answers, "rollouts": outputs}


def _answers(samples: Samples, cap: int, questions: dict[str, int]) -> Iterator[Row]:
    """Greedy answers first, taken in turn from each checkpoint and benchmark."""
    piles = [_pile(b, c, lines) for b, of in samples.items() for c, lines in of.items()]
    in_turn = (row for rows in zip_longest(*piles) for row in rows if row is not None)
    for row, _ in zip(in_turn, range(cap), strict=False):
        yield {"q": _number(row.pop("question"), questions), **row}


def _pile(benchmark: str, checkpoint: str, lines: list[Row]) -> Iterator[Row]:
    for line in sorted(lines, key=lambda line: str(line["mode"]) != "greedy"):
        for completion in line["completions"]:
            yield {
                "question": line["question"],
                "g": line["gold"],
                "a": completion["answer"],
                "r": completion["correct"],
                "t": completion["text"][:LONGEST_TEXT],
                "n": completion["tokens"],
                "f": completion["finish_reason"],
                "b": benchmark,
                "c": checkpoint,
                "m": line["mode"],
                "i": line["id"],
            }


def _rollout(line: Row, group: int, questions: dict[str, int]) -> Row:
    answer, right = judged(line)
    steps = {"s": [[s["text"], round(s["advantage"], 4)] for s in line["steps"]]} if "steps" in line else {}
    return {
        "q": _number(line["question"], questions),
        "g": line["gold"],
        "a": answer,
        "r": right,
        "t": line["output"][:LONGEST_TEXT],
        "n": line["tokens"],
        "f": line["finish_reason"],
        "p": line["step"],
        "h": group,
        "w": round(line["reward"], 4),
        "d": line["advantage"],
        **steps,
    }


def _number(question: str, questions: dict[str, int]) -> int:
    return questions.setdefault(question, len(questions))
