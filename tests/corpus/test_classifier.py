"""The fastText classifier: it separates, it is reproducible, its figures are right."""

import random
from pathlib import Path

import fasttext
import numpy as np
import pytest

from corpus import linear, scoring
from corpus.classifier import NEGATIVE, POSITIVE, Trained, interleave, load, train
from corpus.config import ClassifierConfig, ReadConfig
from corpus.crawl import extract_pages
from corpus.measure import HeldOut, auc, calibration_error, figures, reliability
from corpus.normalize import for_classifier
from corpus.pages import Page, PageStore
from stage import UsageError

CONFIG = ClassifierConfig(dim=16, lr=0.2, epochs=50, min_count=1, bucket=20000, held_out=0.2, threads=1)


def texts(words: str, count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(words.split(), k=30)) for _ in range(count)]


MATHS = texts("theorem proof let $ x integral sum prime matrix the of and", 60, 1)
OTHER = texts("football market holiday recipe phone music server the of and", 60, 2)


def fit(tmp_path: Path) -> Trained:
    return train(interleave(MATHS, OTHER, len(OTHER)), CONFIG, 1, tmp_path / "classifier.bin")


def test_it_tells_maths_from_other_text(tmp_path: Path) -> None:
    trained = fit(tmp_path)
    scores = trained.model.score(["Let x be prime.\nThe proof of the theorem", "football market and\nmusic phone"])
    assert scores[0] > 0.5 > scores[1]
    measured = figures(trained.held_out, 0.5)["held_out"]
    assert (measured["auc"], measured["precision"], measured["recall"]) == (1.0, 1.0, 1.0)
    assert trained.positives + measured["positives"] == 60
    assert measured["positives"] > 3
    assert len(trained.model.score([])) == 0


def test_two_trainings_agree_even_when_memory_is_dirty(tmp_path: Path) -> None:
    """fastText leaves most of its input matrix as it finds the memory; see `_fit`."""
    first = fit(tmp_path).model.score(MATHS)
    for _ in range(4):
        dirt = [np.full(20000 * 16, 1e20, dtype=np.float32) for _ in range(4)]
        del dirt
        np.testing.assert_array_equal(fit(tmp_path).model.score(MATHS), first)


def test_examples_of_both_labels_are_spread_evenly() -> None:
    labels = [label for label, _ in interleave(["p"] * 4, ["n"] * 2, 2)]
    assert labels.count(POSITIVE) == 4
    assert labels == [POSITIVE, NEGATIVE, POSITIVE, POSITIVE, NEGATIVE, POSITIVE]


def test_auc_matches_its_definition() -> None:
    positive, negative = np.array([0.9, 0.5, 0.4]), np.array([0.5, 0.1])
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc(positive, negative) == pytest.approx(sum(pairs) / len(pairs))
    assert auc(positive, np.empty(0)) is None


def test_figures_are_those_of_the_confusion_matrix_in_each_language() -> None:
    scores, positive = np.array([0.9, 0.8, 0.4, 0.7, 0.2]), np.array([True, True, True, False, False])
    held_out = HeldOut(scores, positive, ["en", "zh", "en", "en", "en"])
    measured = figures(held_out, 0.5)
    whole, chinese = measured["held_out"], measured["held_out_by_language"]["zh"]
    assert (whole["precision"], whole["recall"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert whole["auc"] == pytest.approx(5 / 6)
    assert chinese == {"positives": 1, "negatives": 0, "precision": 1.0, "recall": 1.0, "auc": None}
    assert measured["held_out_by_language"]["en"]["auc"] == pytest.approx(3 / 4)


def test_reliability_and_its_error_match_numpy() -> None:
    source = np.random.default_rng(1)
    scores = np.append(source.random(500), 1.0)
    positive = source.random(501) < scores**2
    curve = reliability(scores, positive)
    bins = np.clip(np.digitize(scores, np.linspace(0, 1, 11)) - 1, 0, 9)
    gaps = [abs(scores[bins == b].mean() - positive[bins == b].mean()) * (bins == b).sum() for b in range(10)]
    assert calibration_error(curve) == pytest.approx(sum(gaps) / 501)
    assert sum(b["examples"] for b in curve) == 501
    assert calibration_error(reliability(np.array([0.25, 0.25, 0.25, 0.25]), np.array([1, 0, 0, 0], bool))) == 0


def test_divergence_is_one_clear_line(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"lr": 1e5})
    with pytest.raises(UsageError, match="lower lr"):
        train(interleave(MATHS, OTHER, len(OTHER)), config, 1, tmp_path / "classifier.bin")


def test_pages_score_the_same_in_order_whoever_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(tmp_path).model
    monkeypatch.setattr(scoring, "SMALL", 0)
    texts = (MATHS + OTHER) * 6
    assert len(texts) > 2 * scoring.BATCH
    with PageStore(tmp_path / "pages.jsonl") as store:
        for number, text in enumerate(texts):
            store.append(Page(f"a.org/{number}", f"http://a.org/{number}", text, False, "f", 0))
        for workers in (1, 2):
            batches = list(scoring.score_all(model, store, range(len(texts)), workers))
            np.testing.assert_array_equal(np.concatenate(batches), model.score(texts))


HARD_LINES = [
    "",
    "unknownword",
    "prime",
    "Let $x_1^2 = 16$ \\frac{1}{2} NAÏVE café İstanbul ﬁnite １６",
    "求 和 公 式 theorem " * 50,
    "the of and\0theorem\x0bproof",
    "x" * 5000 + " theorem",
]


def test_scores_are_those_of_fasttext(tmp_path: Path, repository: Path) -> None:
    """The folded model against fastText's own `predict` on the same lines: texts it learned, real pages, odd lines."""
    pages = [t for _, t in extract_pages(str(repository / "examples/pages.warc.gz"), ReadConfig(), lambda reason: None)]
    formulas, prose = (
        [t for t in pages if "$" in t or "\\(" in t],
        [t for t in pages if "$" not in t and "\\(" not in t],
    )
    for word_ngrams in (1, 3):
        file = tmp_path / "classifier.bin"
        config = CONFIG.model_copy(update={"word_ngrams": word_ngrams, "lr": 0.1, "epochs": 30})
        examples = interleave(MATHS + formulas, OTHER + prose, len(OTHER + prose))
        folded, peer = train(examples, config, 1, file).model, fasttext.load_model(str(file))
        texts = [*MATHS, *OTHER, *pages, *HARD_LINES]
        labels, probabilities = peer.predict([for_classifier(t, config.characters) for t in texts], k=2)
        expected = [dict(zip(ls, ps, strict=True))[POSITIVE] for ls, ps in zip(labels, probabilities, strict=True)]
        np.testing.assert_allclose(folded.score(texts), expected, atol=3e-5)  # predict itself adds 1e-5
        np.testing.assert_array_equal(load(file, config.characters).score(texts), folded.score(texts))
        assert np.ptp(folded.score(texts)) > 0.9


def test_a_score_forgets_the_words_of_other_pages_when_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fit(tmp_path).model
    scores = model.score(MATHS)
    monkeypatch.setattr(linear, "REMEMBERED", 5)
    np.testing.assert_array_equal(model.score(MATHS), scores)
    assert len(model._known) < 50
