"""Makes Math-Shepherd's data: sample solutions, complete every prefix N times, label the steps.

Out: labels.jsonl, one solution a line, flushed question by question, so that a killed run keeps what it has.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl.config import RewardConfig
from rl.questions import Question
from rl.reward.labels import estimate, join_steps, line_break_tokens, split_steps
from rl.reward.model import Solution
from rl.reward.rule import decode, rule_reward
from rl.rollout.engine import RolloutEngine
from stage import cut_back_jsonl, read_jsonl

QUESTIONS_PER_CHUNK = 64


@dataclass(frozen=True)
class Labelled:
    """One line of labels.jsonl. `correct` says whether the solution itself ends in the right answer."""

    question: int
    text: str
    gold: str
    correct: bool
    prompt_ids: list[int]
    steps: list[list[int]]
    labels: list[float]

    @property
    def solution(self) -> Solution:
        return Solution(self.prompt_ids, self.steps, self.labels)


def label_questions(
    questions: Sequence[Question],
    first: int,
    engine: RolloutEngine,
    tokenizer: Any,
    config: RewardConfig,
    path: Path,
) -> Iterator[list[Labelled]]:
    """Label the questions from number `first` on, QUESTIONS_PER_CHUNK at a time; a lot comes when it is in `path`."""
    breaks = line_break_tokens(tokenizer)
    with open(path, "a") as file:
        for start in range(first, len(questions), QUESTIONS_PER_CHUNK):
            chunk = questions[start : start + QUESTIONS_PER_CHUNK]
            labelled = _label_chunk(start, chunk, engine, tokenizer, config, breaks)
            file.writelines(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in labelled)
            file.flush()
            yield labelled


def read_labelled(path: Path, num_solutions: int) -> list[Labelled]:
    """What `path` holds; the last question, when a kill tore it apart, is cut off the file."""
    if not path.exists():
        return []
    cut_back_jsonl(path)
    labelled = [Labelled(**line) for line in read_jsonl(path)]
    if len(labelled) % num_solutions:
        torn = labelled[-1].question
        cut_back_jsonl(path, lambda line: line["question"] != torn)
        labelled = [item for item in labelled if item.question != torn]
    return labelled


def _label_chunk(
    start: int,
    questions: Sequence[Question],
    engine: RolloutEngine,
    tokenizer: Any,
    config: RewardConfig,
    breaks: frozenset[int],
) -> list[Labelled]:
    sampling = {
        "temperature": config.temperature,
        "max_new_tokens": config.max_new_tokens,
        "stop_token_ids": [tokenizer.eos_token_id],
    }
    sampled = engine.sample([q.prompt_ids for q in questions], config.num_solutions, sampling)
    solutions = [(n, split_steps(c.output_ids, breaks)) for n, cs in enumerate(sampled) for c in cs]
    # every proper prefix is completed; the whole solution needs no completion, it has its answer
    prefixes = [
        (questions[n].prompt_ids + join_steps(steps[:k]), questions[n], steps[:k])
        for n, steps in solutions
        for k in range(1, len(steps))
    ]
    completed = iter(
        zip(prefixes, engine.sample([p for p, _, _ in prefixes], config.num_completions, sampling), strict=True)
    )
    labelled = []
    for n, steps in solutions:
        q = questions[n]
        correct = rule_reward(decode(tokenizer, join_steps(steps)), q.gold) == 1.0
        labels = []
        for _ in steps[:-1]:
            (_, _, prefix), completions = next(completed)
            texts = [decode(tokenizer, join_steps(prefix) + c.output_ids) for c in completions]
            labels.append(estimate([rule_reward(t, q.gold) == 1.0 for t in texts], config.label))
        labels.append(float(correct))
        text = decode(tokenizer, join_steps(steps))
        labelled.append(Labelled(start + n, text, q.gold, correct, q.prompt_ids, steps, labels))
    return labelled
