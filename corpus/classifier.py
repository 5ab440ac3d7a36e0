"""The fastText classifier that tells mathematical pages from others, and the figures that say how well it does.

Comes in: texts known to be mathematical (positives) and texts of the crawl (negatives). Goes out: a score in [0, 1] for
any text. Every text passes `normalize.for_classifier`, in training and in scoring.

A part of the examples, chosen by the hash of the text, is kept out of training and measures the classifier.
"""

import ctypes
import hashlib
import heapq
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fasttext
import numpy as np

from corpus.config import ClassifierConfig
from corpus.language import language_of
from corpus.measure import HeldOut, Scores
from corpus.normalize import for_classifier
from stage import UsageError

M_MMAP_THRESHOLD = -3  # of glibc's malloc.h; setting it also stops glibc from raising it
POSITIVE, NEGATIVE = "__label__maths", "__label__other"
Example = tuple[str, str]  # (label, text)


@dataclass(frozen=True)
class Trained:
    """A classifier, how many examples it learned from, and its scores on those kept out of training."""

    model: "Classifier"
    positives: int
    negatives: int
    held_out: HeldOut


class Classifier:
    """A trained fastText model."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def score(self, texts: list[str]) -> Scores:
        """Probability that each text is mathematical."""
        if not texts:
            return np.empty(0)
        # A list of lines: with numpy 2, fastText 0.9.3 raises on a single string.
        labels, probabilities = self._model.predict([for_classifier(t) for t in texts], k=2)
        found = [dict(zip(ls, ps, strict=True)) for ls, ps in zip(labels, probabilities, strict=True)]
        scores = np.array([f.get(POSITIVE, 0.0) for f in found], dtype=np.float64)
        return np.clip(scores, 0.0, 1.0)  # fastText's softmax can exceed 1 by 1e-5

    @classmethod
    def load(cls, path: str | Path) -> "Classifier":
        """A saved model."""
        return cls(fasttext.load_model(str(path)))

    def save(self, path: Path) -> None:
        self._model.save_model(str(path))


def train(examples: Iterable[Example], config: ClassifierConfig, seed: int, file: Path) -> Trained:
    """Train on the examples, written to `file` first. With one thread the same examples give the same model."""
    counts = {POSITIVE: 0, NEGATIVE: 0}
    held_out: list[Example] = []
    with open(file, "w", encoding="utf-8") as f:
        for label, text in examples:
            if _share(text, seed) < config.held_out:
                held_out.append((label, text))
            else:
                counts[label] += 1
                f.write(f"{label} {for_classifier(text)}\n")
    classifier = Classifier(_fit(file, config, seed))
    scores = classifier.score([text for _, text in held_out])
    positive = np.array([label == POSITIVE for label, _ in held_out], dtype=bool)
    measured = HeldOut(scores, positive, [language_of(text) for _, text in held_out])
    return Trained(classifier, counts[POSITIVE], counts[NEGATIVE], measured)


def interleave(positives: list[str], negatives: Iterable[str], negative_count: int) -> Iterator[Example]:
    """The examples, both labels spread evenly: fastText does not shuffle, and what comes last weighs most."""

    def placed(label: str, texts: Iterable[str], count: int) -> Iterator[tuple[float, str, str]]:
        return (((i + 0.5) / count, label, text) for i, text in enumerate(texts))

    merged = heapq.merge(placed(POSITIVE, positives, len(positives)), placed(NEGATIVE, negatives, negative_count))
    return ((label, text) for _, label, text in merged)


def _fit(file: Path, config: ClassifierConfig, seed: int) -> Any:
    """The trained fastText model. It is trained in a process of its own, whose large blocks of memory are all zero.

    fastText 0.9.3 fills a tenth of its input matrix for each training thread and leaves the rest as it finds it: with
    fewer than ten threads, a model trained in a process that has lived for a while starts from what others left
    behind, and may diverge.
    """
    model = file.with_suffix(".trained.bin")
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as fresh:
        fresh.submit(_fit_and_save, file, config, seed, model).result()
    loaded = fasttext.load_model(str(model))
    model.unlink()
    return loaded


def _fit_and_save(file: Path, config: ClassifierConfig, seed: int, model: Path) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries than glibc have none
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 128 * 1024)  # larger blocks come from the kernel, zeroed, however often freed
    try:
        trained = fasttext.train_supervised(
            input=str(file),
            dim=config.dim,
            lr=config.lr,
            wordNgrams=config.word_ngrams,
            minCount=config.min_count,
            epoch=config.epochs,
            bucket=config.bucket,
            thread=config.threads,
            seed=seed,
            verbose=0,
        )
    except RuntimeError as error:
        if "NaN" in str(error):
            raise UsageError(f"corpus.classifier: training diverged; lower lr (it is {config.lr})") from None
        raise
    trained.save_model(str(model))


def _share(text: str, seed: int) -> float:
    """A number in [0, 1) that depends on the text and the seed only."""
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") / 2**64
