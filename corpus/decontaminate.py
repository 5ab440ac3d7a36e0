"""Benchmark problems that occur in a text: the paper's n-gram rule, through an inverted index of hashes.

Comes in: benchmark files, then texts. Goes out: for a contaminated text the first match: benchmark, problem, n-gram.

A text is contaminated when it contains any 10 consecutive tokens of a benchmark text, or the whole of a benchmark text
of 3 to 9 tokens. Tokens are those of `normalize.for_matching`. Benchmark words get numbers; a text becomes an array of
these numbers (0 for a word no benchmark has); the hashes of all its n-grams are one array operation, looked up in the
sorted hashes of the index. The cost does not grow with the number of problems, and a hit is confirmed token by token.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corpus.config import BenchmarkFile, DecontaminationConfig
from corpus.normalize import for_matching
from stage import UsageError

Ids = npt.NDArray[np.uint64]
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that the polynomial hash modulo 2^64 loses no bits
CALCULATOR = re.compile(r"<<[^>]*>>")  # GSM8K's annotations, which no web page repeats


@dataclass(frozen=True)
class Match:
    """Where a text meets a benchmark."""

    benchmark: str
    problem: str
    ngram: str


@dataclass(frozen=True)
class BenchmarkText:
    """One text to search for."""

    benchmark: str
    problem: str
    tokens: list[str]


def read_benchmark(benchmark: BenchmarkFile) -> Iterator[BenchmarkText]:
    """The texts of a benchmark file, one problem a line; a line that cannot be used is an error that names it."""
    with open(benchmark.path, encoding="utf-8") as f:
        for number, line in enumerate(f):
            where = f"{benchmark.path}:{number + 1}"
            try:
                problem = json.loads(line)
            except json.JSONDecodeError as error:
                raise UsageError(f"{where}: not JSON ({error.msg})") from None
            for key in [*benchmark.text_keys, *([benchmark.id_key] if benchmark.id_key else [])]:
                if not isinstance(problem, dict) or key not in problem:
                    raise UsageError(f"{where}: benchmark '{benchmark.name}' expects the key '{key}' in every problem")
            name = str(problem[benchmark.id_key]) if benchmark.id_key else str(number)
            for key in benchmark.text_keys:
                tokens = for_matching(CALCULATOR.sub("", str(problem[key])))
                yield BenchmarkText(benchmark.name, name, tokens)


class Decontaminator:
    """The index of all benchmark n-grams; ask it about texts."""

    def __init__(self, texts: list[BenchmarkText], config: DecontaminationConfig) -> None:
        self._texts = texts
        self._vocabulary: dict[str, int] = {}
        ids = [self._number(t.tokens) for t in texts]
        lengths = {min(len(t.tokens), config.ngram) for t in texts}
        self._index = {
            n: _build(ids, n, whole=n < config.ngram) for n in sorted(lengths, reverse=True) if n >= config.min_ngram
        }

    def find(self, text: str) -> Match | None:
        """The first benchmark n-gram in `text`, longer ones first; None when there is none."""
        tokens = for_matching(text)
        ids = np.array([self._vocabulary.get(t, 0) for t in tokens], dtype=np.uint64)
        for n, (hashes, owners) in self._index.items():
            found = _hashes(ids, n)
            slots = np.searchsorted(hashes, found)
            slots[slots == len(hashes)] = 0
            for position in np.flatnonzero(hashes[slots] == found):
                text_number, start = owners[slots[position]]
                owner = self._texts[text_number]
                if owner.tokens[start : start + n] == tokens[position : position + n]:
                    return Match(owner.benchmark, owner.problem, " ".join(tokens[position : position + n]))
        return None

    def _number(self, tokens: list[str]) -> Ids:
        numbers = [self._vocabulary.setdefault(t, len(self._vocabulary) + 1) for t in tokens]
        return np.array(numbers, dtype=np.uint64)


def _build(ids: list[Ids], n: int, whole: bool) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Sorted n-gram hashes and, beside each, (number of the text, position in it) of the first text that has it.

    `whole`: only texts of exactly n tokens enter; otherwise every n-gram of every text that is long enough.
    """
    hashes, owners = [], []
    for number, text in enumerate(ids):
        if len(text) == n or (len(text) > n and not whole):
            values = _hashes(text, n)
            hashes.append(values)
            owners.append(np.stack([np.full(len(values), number), np.arange(len(values))], axis=1))
    unique, first = np.unique(np.concatenate(hashes), return_index=True)
    return unique, np.concatenate(owners)[first]


def _hashes(ids: Ids, n: int) -> Ids:
    """Hash of every n-gram: sum over j of (id_j + 1) * MULTIPLIER^(n - j), modulo 2^64."""
    count = len(ids) - n + 1
    if count <= 0:
        return np.empty(0, dtype=np.uint64)
    total = np.zeros(count, dtype=np.uint64)
    for j in range(n):
        total = (total + ids[j : j + count] + np.uint64(1)) * MULTIPLIER
    return total


def load_benchmarks(benchmarks: list[BenchmarkFile]) -> list[BenchmarkText]:
    """All texts of all benchmark files."""
    for benchmark in benchmarks:
        if not Path(benchmark.path).is_file():
            raise UsageError(f"benchmark '{benchmark.name}': no file {benchmark.path}")
    return [text for benchmark in benchmarks for text in read_benchmark(benchmark)]
