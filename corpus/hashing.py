"""A text as numbers: a 64-bit hash for each token of `normalize.for_matching`, and for each n-gram of them.

Duplicate removal and decontamination compare these. They are computed on arrays of code points, without a Python string
for each token, which makes them several times as fast as the tokens themselves. Equal tokens have equal hashes; that
two different tokens do is one chance in 2^64 a pair.
"""

import re
from functools import cache

import numpy as np
import numpy.typing as npt

from corpus.normalize import CJK, matching_text

Hashes = npt.NDArray[np.uint64]
CodePoints = npt.NDArray[np.uint32]
Kinds = npt.NDArray[np.uint8]
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers modulo 2^64 lose no bits
LONGEST = 4096  # a longer token repeats the powers of its characters' places
SEPARATOR, LETTER, DIGIT, CHINESE = range(4)


def token_hashes(text: str) -> Hashes:
    """Hash of every token of `for_matching(text)`, in order. [tokens]"""
    points, kinds = _points(text)
    return _hash_runs(points, kinds)


def character_codes(text: str) -> Hashes:
    """The characters of the tokens of `for_matching(text)` one by one, as numbers. [characters]"""
    points, kinds = _points(text)
    return mixed(points[kinds != SEPARATOR].astype(np.uint64))


def ngram_hashes(items: Hashes, n: int) -> Hashes:
    """Hash of every n consecutive items: sum over j of item_j * MULTIPLIER^(n - j), mixed. [max(0, items - n + 1)]"""
    count = len(items) - n + 1
    if count <= 0:
        return np.empty(0, dtype=np.uint64)
    total = np.zeros(count, dtype=np.uint64)
    for j in range(n):
        total = (total + items[j : j + count]) * MULTIPLIER
    return mixed(total)


def mixed(values: Hashes) -> Hashes:
    """A bijection of 64-bit numbers in which every bit depends on every bit (the finalizer of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _points(text: str) -> tuple[CodePoints, Kinds]:
    """Code points of the normalised text, and what each of them is."""
    points = np.frombuffer(matching_text(text).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return points, _kind_table()[points]


def _hash_runs(points: CodePoints, kinds: Kinds) -> Hashes:
    """A token begins where the kind changes to anything but a separator, and at every Chinese character."""
    if not len(points):
        return np.empty(0, dtype=np.uint64)
    changes = np.empty(len(kinds), dtype=bool)
    changes[0] = True
    np.not_equal(kinds[1:], kinds[:-1], out=changes[1:])
    starts = np.flatnonzero((changes | (kinds == CHINESE)) & (kinds != SEPARATOR))
    if not len(starts):
        return np.empty(0, dtype=np.uint64)
    lengths = np.diff(np.append(starts, len(points)))
    place = np.arange(starts[0], len(points)) - np.repeat(starts, lengths)
    values = (points[starts[0] :].astype(np.uint64) + np.uint64(1)) * _powers()[place % LONGEST]
    values[kinds[starts[0] :] == SEPARATOR] = 0  # what follows a token up to the next one
    return mixed(np.add.reduceat(values, starts - starts[0]))


@cache
def _powers() -> Hashes:
    return np.cumprod(np.full(LONGEST, MULTIPLIER), dtype=np.uint64)


@cache
def _kind_table() -> Kinds:
    """Kind of every code point, as the regular expression of `for_matching` sees it. 1.1 MB, made once a process."""
    every = "".join(map(chr, range(0x110000)))
    table = np.full(len(every), SEPARATOR, dtype=np.uint8)
    for kind, pattern in ((LETTER, rf"[^\W\d_{CJK}]"), (DIGIT, r"\d"), (CHINESE, f"[{CJK}]")):
        table[[ord(c) for c in re.findall(pattern, every)]] = kind
    return table
