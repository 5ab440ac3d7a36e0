"""The fastText classifier: it separates, it is reproducible, its figures are right."""

import random
from pathlib import Path

import numpy as np
import pytest

from corpus.classifier import NEGATIVE, POSITIVE, Trained, auc, interleave, share_at_least, train
from corpus.config import ClassifierConfig
from stage import UsageError

CONFIG = ClassifierConfig(dim=16, lr=0.2, epochs=50, min_count=1, bucket=20000, held_out=0.2, threads=1)


def texts(words: str, count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(words.split(), k=30)) for _ in range(count)]


MATHS = texts("theorem proof let $ x integral sum prime matrix the of and", 60, 1)
OTHER = texts("football market holiday recipe phone music server the of and", 60, 2)


def fit(tmp_path: Path) -> Trained:
    return train(interleave(MATHS, OTHER, len(OTHER)), CONFIG, 1, tmp_path / "examples.txt")


def test_it_tells_maths_from_other_text(tmp_path: Path) -> None:
    trained = fit(tmp_path)
    scores = trained.model.score(["Let x be prime.\nThe proof of the theorem", "football market and\nmusic phone"])
    assert scores[0] > 0.5 > scores[1]
    assert auc(trained.held_out_positive, trained.held_out_negative) == 1.0
    assert trained.positives + len(trained.held_out_positive) == 60
    assert len(trained.held_out_positive) > 3
    assert len(trained.model.score([])) == 0


def test_two_trainings_agree_even_when_memory_is_dirty(tmp_path: Path) -> None:
    """fastText leaves most of its input matrix as it finds the memory; see `_large_blocks_from_the_kernel`."""
    first = fit(tmp_path).model.score(MATHS)
    for _ in range(4):
        dirt = [np.full(20000 * 16, 1e20, dtype=np.float32) for _ in range(4)]
        del dirt
        np.testing.assert_array_equal(fit(tmp_path).model.score(MATHS), first)


def test_examples_of_both_labels_are_spread_evenly() -> None:
    labels = [label for label, _ in interleave(["p"] * 4, ["n"] * 2, 2)]
    assert labels.count(POSITIVE) == 4
    assert labels == [POSITIVE, NEGATIVE, POSITIVE, POSITIVE, NEGATIVE, POSITIVE]


def test_auc_and_share_match_their_definitions() -> None:
    positive, negative = np.array([0.9, 0.5, 0.4]), np.array([0.5, 0.1])
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc(positive, negative) == pytest.approx(sum(pairs) / len(pairs))
    assert auc(positive, np.empty(0)) is None
    assert share_at_least(positive, 0.5) == pytest.approx(2 / 3)
    assert share_at_least(np.empty(0), 0.5) is None


def test_divergence_is_one_clear_line(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"lr": 1e5})
    with pytest.raises(UsageError, match="lower lr"):
        train(interleave(MATHS, OTHER, len(OTHER)), config, 1, tmp_path / "examples.txt")
