"""The fastText classifier that tells mathematical pages from others, and the figures that say how well it does.

Comes in: texts known to be mathematical (positives) and texts of the crawl (negatives). Goes out: a model in fastText's
format, and the same model as `corpus.linear` scores with it: a number in [0, 1] for any text. Training and scoring see
the same words, those of `corpus.normalize`.

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

import numpy as np

from corpus.config import ClassifierConfig
from corpus.language import language_of
from corpus.linear import LinearModel, fold
from corpus.measure import HeldOut
from corpus.normalize import for_classifier
from stage import UsageError

M_PERTURB = -6  # of glibc's malloc.h: what is allocated is filled with the complement of this byte
POSITIVE, NEGATIVE = "__label__maths", "__label__other"
Example = tuple[str, str]  # (label, text)


@dataclass(frozen=True)
class Trained:
    """A classifier, how many examples it learned from, and its scores on those kept out of training."""

    model: LinearModel
    positives: int
    negatives: int
    held_out: HeldOut


def load(file: str | Path, characters: int | None) -> LinearModel:
    """A model that `train` wrote, with the `characters` it was trained with."""
    import fasttext

    return fold(fasttext.load_model(str(file)), POSITIVE, characters)


def train(examples: Iterable[Example], config: ClassifierConfig, seed: int, model: Path) -> Trained:
    """Train on the examples and write `model`. With one thread the same examples give the same model."""
    counts = {POSITIVE: 0, NEGATIVE: 0}
    held_out: list[Example] = []
    lines = model.with_suffix(".txt")
    with open(lines, "w", encoding="utf-8") as f:
        for label, text in examples:
            if _share(text, seed) < config.held_out:
                held_out.append((label, text))
            else:
                counts[label] += 1
                f.write(f"{label} {for_classifier(text, config.characters)}\n")
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as fresh:
        trained = fresh.submit(_fit, lines, config, seed, model).result()
    lines.unlink()
    scores = trained.score([text for _, text in held_out])
    positive = np.array([label == POSITIVE for label, _ in held_out], dtype=bool)
    measured = HeldOut(scores, positive, [language_of(text) for _, text in held_out])
    return Trained(trained, counts[POSITIVE], counts[NEGATIVE], measured)


def interleave(positives: list[str], negatives: Iterable[str], negative_count: int) -> Iterator[Example]:
    """The examples, both labels spread evenly: fastText does not shuffle, and what comes last weighs most."""

    def placed(label: str, texts: Iterable[str], count: int) -> Iterator[tuple[float, str, str]]:
        return (((i + 0.5) / count, label, text) for i, text in enumerate(texts))

    merged = heapq.merge(placed(POSITIVE, positives, len(positives)), placed(NEGATIVE, negatives, negative_count))
    return ((label, text) for _, label, text in merged)


def _fit(lines: Path, config: ClassifierConfig, seed: int, model: Path) -> LinearModel:
    """Train and save. It runs in a process of its own, in which all memory is zero when it is allocated.

    fastText 0.9.3 fills a tenth of its input matrix for each training thread and leaves the rest as it finds it: with
    fewer than ten threads, a model trained in a process that has lived for a while starts from what others left
    behind, and may diverge.
    """
    import fasttext

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries than glibc have none
    if mallopt is not None:
        mallopt(M_PERTURB, 0xFF)
    try:
        trained = fasttext.train_supervised(
            input=str(lines),
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
    return fold(trained, POSITIVE, config.characters)


def _share(text: str, seed: int) -> float:
    """A number in [0, 1) that depends on the text and the seed only."""
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") / 2**64
