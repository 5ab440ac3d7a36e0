"""Benchmark problems that occur in a text: the paper's n-gram rule, through an inverted index of hashes.

Comes in: benchmark files, then texts. Goes out: for a contaminated text the first match: benchmark, problem, n-gram.

A text is contaminated when it contains any 10 consecutive tokens of a benchmark text, or the whole of a benchmark text
of 3 to 9 tokens. Tokens are those of `normalize.for_matching`. The hashes of all n-grams of a text (`corpus.hashing`)
are one array, looked up in the sorted hashes of the index: the cost does not grow with the number of problems. A hit is
confirmed token by token.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corpus.config import BenchmarkFile, DecontaminationConfig
from corpus.hashing import Hashes, ngram_hashes, token_hashes
from corpus.normalize import for_matching
from stage import UsageError

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
        hashes = [token_hashes(" ".join(t.tokens)) for t in texts]
        lengths = {min(len(t), config.ngram) for t in hashes}
        self._index = {
            n: _build(hashes, n, whole=n < config.ngram) for n in sorted(lengths, reverse=True) if n >= config.min_ngram
        }

    def find(self, text: str) -> Match | None:
        """The first benchmark n-gram in `text`, longer ones first; None when there is none."""
        hashes, tokens = token_hashes(text), list[str]()
        for n, (known, owners) in self._index.items():
            ngrams = ngram_hashes(hashes, n)
            slots = np.searchsorted(known, ngrams)
            slots[slots == len(known)] = 0
            for position in np.flatnonzero(known[slots] == ngrams):
                number, start = owners[slots[position]]
                owner, tokens = self._texts[number], tokens or for_matching(text)
                if owner.tokens[start : start + n] == tokens[position : position + n]:
                    return Match(owner.benchmark, owner.problem, " ".join(tokens[position : position + n]))
        return None


def _build(texts: list[Hashes], n: int, whole: bool) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Sorted hashes of n-grams, and for each the [number of a text that has it, position in it].

    `whole`: only texts of exactly n tokens enter; otherwise every n-gram of every text that is long enough.
    """
    hashes, owners = [], []
    for number, text in enumerate(texts):
        if len(text) == n or (len(text) > n and not whole):
            values = ngram_hashes(text, n)
            hashes.append(values)
            owners.append(np.stack([np.full(len(values), number), np.arange(len(values))], axis=1))
    unique, first = np.unique(np.concatenate(hashes), return_index=True)
    return unique, np.concatenate(owners)[first]


def load_benchmarks(benchmarks: list[BenchmarkFile]) -> list[BenchmarkText]:
    """All texts of all benchmark files."""
    for benchmark in benchmarks:
        if not Path(benchmark.path).is_file():
            raise UsageError(f"benchmark '{benchmark.name}': no file {benchmark.path}")
    return [text for benchmark in benchmarks for text in read_benchmark(benchmark)]
