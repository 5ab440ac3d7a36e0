r"""A fastText model of two labels as one number a feature, which scores the same some twenty times as fast.

fastText takes the mean of a line's vectors, one for each word and word n-gram, multiplies it by the output matrix and
applies softmax. With two labels that is the logistic function of <mean of the vectors, w+ - w->, and a product with a
mean is the mean of the products:

    score = 1 / (1 + exp(-mean over the features i of s_i)),    s_i = <vector_i, w+ - w->

So each vector is reduced to the number s_i, once. Where fastText reads 256 numbers a feature from 2 GB, a score reads
one from 9 MB, which stay in a core's cache; processes then do not wait for the same memory.

A feature is found as fastText 0.9.3 finds it: a word by its text; an n-gram of the words w_1 .. w_n (the end of the
line is a word too) by the hash (..(h_1 * K + h_2) * K ..) + h_n modulo 2^64, modulo the number of buckets, where h_i is
the 32-bit FNV-1a hash of a word, taken as signed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from corpus.measure import Scores
from corpus.normalize import classifier_tokens, classifier_word

NGRAM_MULTIPLIER = np.uint64(116049371)
END_OF_LINE = "</s>"
REMEMBERED = 1 << 20  # tokens looked up before that are kept, of at most
LONG = 64  # characters; longer tokens are looked up each time


class LinearModel:
    """The weights of a model's words and n-gram buckets; `words` in fastText's order.

    `characters`: of a longer text it scores pieces, as `normalize.classifier_tokens` says; the same as in training.
    """

    def __init__(
        self, words: list[str], weights: npt.NDArray[np.float32], bucket: int, word_ngrams: int, characters: int | None
    ) -> None:
        self.words, self.bucket, self.word_ngrams, self.characters = words, bucket, word_ngrams, characters
        # [1 + words + bucket]: in front the weight of a word that the model does not know
        self.weights = weights
        self._known = _Known(words)

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearModel, (self.words, self.weights, self.bucket, self.word_ngrams, self.characters)

    def score(self, texts: Sequence[str]) -> Scores:
        """Probability of the positive label for each text."""
        lines = (classifier_tokens(text, self.characters) for text in texts)
        return np.array([self.score_tokens(line) for line in lines], dtype=np.float64)

    def score_tokens(self, tokens: list[str]) -> float:
        """The score of one line of tokens; 0 when the model knows none of its features."""
        if len(self._known) > REMEMBERED:
            self._known.clear()
        packed = np.fromiter(map(self._known.__getitem__, [*tokens, END_OF_LINE]), np.int64, len(tokens) + 1)
        number, signed = packed >> 32, packed.astype(np.int32).astype(np.int64).view(np.uint64)
        total, features = self.weights[number].sum(dtype=np.float64), np.count_nonzero(number)
        buckets, hashes = self.weights[1 + len(self.words) :], signed
        for n in range(2, min(self.word_ngrams, len(packed)) + 1):
            hashes = hashes[:-1] * NGRAM_MULTIPLIER + signed[n - 1 :]
            total += buckets[hashes % np.uint64(self.bucket)].sum(dtype=np.float64)
            features += len(hashes)
        return 1 / (1 + float(np.exp(-total / features))) if features else 0.0


def fold(model: Any, positive: str, characters: int | None) -> LinearModel:
    """The LinearModel of a fastText model with two labels, trained without subwords and with softmax."""
    settings, output = model.f.getArgs(), model.get_output_matrix()
    sign = 1 if model.get_labels()[0] == positive else -1
    vectors = np.asarray(model.f.getInputMatrix())  # [words + bucket, dim], not copied
    weights = np.zeros(1 + len(vectors), dtype=np.float32)
    np.matmul(vectors, sign * (output[0] - output[1]), out=weights[1:])
    return LinearModel(model.get_words(), weights, settings.bucket, settings.wordNgrams, characters)


class _Known(dict[str, int]):
    """Token -> (number of its word, 0 where the model has none) * 2^32 + its hash, worked out when first asked for."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self._numbers = {word: number for number, word in enumerate(words, 1)}

    def __missing__(self, token: str) -> int:
        word = classifier_word(token)
        value = self._numbers.get(word, 0) << 32 | _fnv1a(word.encode("utf-8", "surrogatepass"))
        if len(token) <= LONG:
            self[token] = value
        return value


def _fnv1a(data: bytes) -> int:
    """fastText's hash of a word, 32 bits: FNV-1a in which a byte from 128 on is a negative number."""
    value = 2166136261
    for byte in data:
        value = (value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619 & 0xFFFFFFFF
    return value
