"""Reads the training examples of the profile's sources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.benchmarks.word_problems import generate
from sft.config import SftSource
from sft.formats import Example, encode
from stage import Stage, UsageError, read_jsonl


def read_examples(stage: Stage, sources: list[SftSource], tokenizer: Any, seq_length: int, seed: int) -> list[Example]:
    """All sources' examples, in order. Those longer than `seq_length` are dropped and counted."""
    examples = []
    for source in sources:
        for question, solution in _pairs(stage, source, seed):
            stage.counts["in"] += 1
            example = encode(tokenizer, question, solution)
            if len(example.tokens) > seq_length:
                stage.drop(f"longer than seq_length {seq_length}")
            else:
                examples.append(example)
    if not examples:
        raise UsageError(f"sft.sources: no example fits in seq_length {seq_length}")
    stage.counts["out"] = len(examples)
    return examples


def _pairs(stage: Stage, source: SftSource, seed: int) -> Iterator[tuple[str, str]]:
    if source.path is None:
        for problem in generate("train", source.num_examples or 10_000, seed):
            yield problem.question, problem.solution
        return
    path = stage.read_file(source.path)
    for number, record in enumerate(read_jsonl(path), start=1):
        if source.num_examples is not None and number > source.num_examples:
            return
        yield _text(record, source.question_key, path, number), _text(record, source.solution_key, path, number)


def _text(record: dict[str, Any], key: str, path: Path, number: int) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{path}:{number}: '{key}' must be a non-empty string, got {value!r}")
    return value
