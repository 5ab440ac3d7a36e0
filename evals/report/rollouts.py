"""GRPO's rollouts for the report: whole groups, spread evenly over the training, and how many tokens were sampled.

In: grpo/samples.jsonl, one output a line, the outputs of a group side by side. A line holds step, question, gold,
output, reward, advantage and tokens; under process supervision also `steps`, a list of {"text", "advantage"} whose
texts make up the output: the tokens of a step share an advantage.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from evals.equivalence import is_correct
from evals.extraction import extract_answer
from stage import UsageError

Line = dict[str, Any]


@dataclass(frozen=True)
class Rollouts:
    """`groups` of outputs to show, of the `total` outputs and `tokens` that training sampled."""

    groups: list[list[Line]]
    total: int = 0
    tokens: int = 0


def read_rollouts(path: Path, cap: int) -> Rollouts:
    """At most `cap` outputs in whole groups (at least one group); empty when there is no file."""
    if not path.is_file():
        return Rollouts([])
    outputs = tokens = groups = 0
    for group in _groups(path):  # read twice, not kept: the file of a long training doesn't fit into memory
        groups, outputs = groups + 1, outputs + len(group)
        tokens += sum(line["tokens"] for line in group)
    wanted = max(1, min(groups, cap * groups // max(outputs, 1)))
    chosen = {i * groups // wanted for i in range(wanted)}
    return Rollouts([g for i, g in enumerate(_groups(path)) if i in chosen], outputs, tokens)


def judged(line: Line) -> tuple[str | None, bool]:
    """(the answer found in the output, whether it is right): the reward may be a model's and not tell."""
    answer = extract_answer(line["output"])
    return answer, answer is not None and is_correct(line["gold"], answer)


def _groups(path: Path) -> Iterator[list[Line]]:
    for _, group in groupby(_lines(path), key=lambda line: (line["step"], line["question"])):
        yield list(group)


def _lines(path: Path) -> Iterator[Line]:
    with open(path, encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            try:
                line = json.loads(text)
                line["step"], line["question"], line["gold"], line["output"], line["tokens"]
                float(line["reward"]), float(line["advantage"])
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{path}:{number}: not a rollout ({error!r})") from None
            yield line
