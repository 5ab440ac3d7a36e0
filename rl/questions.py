"""The questions that RL learns from, each with its gold answer, in an order that is a function of the seed."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from evals.benchmarks.word_problems import generate
from rl.config import GrpoConfig, RewardConfig
from sft.formats import encode_prompt
from stage import Stage, UsageError, read_jsonl


@dataclass(frozen=True)
class Question:
    """One question: its text, its prompt as token ids, its gold answer."""

    text: str
    prompt_ids: list[int]
    gold: str


def read_questions(stage: Stage, section: RewardConfig | GrpoConfig, tokenizer: Any, seed: int) -> list[Question]:
    """The first `num_questions` of the section's questions (or all of the file, if it has fewer).

    A question that leaves no room for an answer of `max_new_tokens` in `seq_length` is dropped and counted: the server
    would refuse it in the middle of a run. Raises UsageError naming a bad record, or when no question is left.
    """
    config, room = section.questions, section.seq_length - section.max_new_tokens
    if config.path is None:
        pairs = [(p.question, p.answer) for p in generate("train", config.num_questions, seed)]
    else:
        path = stage.read_file(config.path)
        pairs = []
        for number, record in enumerate(read_jsonl(path), start=1):
            question, gold = record.get(config.question_key), record.get(config.answer_key)
            if not isinstance(question, str) or gold is None:
                raise UsageError(
                    f"{path}:{number}: expected '{config.question_key}' (string) and '{config.answer_key}', "
                    f"got keys {sorted(record)}"
                )
            pairs.append((question, str(gold)))
    pairs = pairs[: config.num_questions]
    read = [Question(text, encode_prompt(tokenizer, text), gold) for text, gold in pairs]
    fitting = [question for question in read if len(question.prompt_ids) <= room]
    if len(fitting) < len(read):
        stage.drop(f"question longer than seq_length - max_new_tokens = {room} tokens", len(read) - len(fitting))
    if not fitting:
        raise UsageError(f"{stage.name}.questions: none of {len(read)} fits in seq_length - max_new_tokens = {room}")
    return fitting


def questions_of_step(questions: list[Question], step: int, per_step: int, seed: int) -> list[Question]:
    """The questions of RL step `step`: epochs of random orders, no question twice in an epoch."""
    chosen = []
    for number in range(step * per_step, (step + 1) * per_step):
        epoch, position = divmod(number, len(questions))
        chosen.append(questions[epoch_order(len(questions), epoch, seed)[position]])
    return chosen


@lru_cache(maxsize=2)  # a step may reach from one epoch into the next
def epoch_order(n: int, epoch: int, seed: int) -> tuple[int, ...]:
    """The random order in which epoch number `epoch` takes `n` items."""
    return tuple(np.random.default_rng([seed, epoch]).permutation(n).tolist())
