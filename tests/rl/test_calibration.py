"""The reward model's calibration, recomputed independently in float64 numpy."""

import numpy as np
import pytest

from rl.reward.calibration import brier_score, expected_calibration_error, reliability

BINS = 10


@pytest.fixture
def case() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with both ends of the range among them, and soft labels of four completions."""
    rng = np.random.default_rng(7)
    p = np.concatenate([rng.beta(0.5, 2.0, 400), [0.0, 1.0, 0.5]]).astype(np.float64)
    return p, rng.integers(0, 5, p.size) / 4


def test_reliability_curve_is_each_bins_mean_probability_and_mean_label(case: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = case
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    steps = np.bincount(number, minlength=BINS)
    filled = steps > 0
    curve = reliability(p.tolist(), y.tolist(), BINS)
    for key, weights in (("predicted", p), ("label", y)):
        means = np.bincount(number, weights=weights, minlength=BINS)[filled] / steps[filled]
        np.testing.assert_allclose([b[key] for b in curve], means, rtol=1e-12)
    assert [b["steps"] for b in curve] == steps[filled].tolist()


def test_calibration_error_and_brier_score_match_numpy(case: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = case
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    error = sum((number == b).mean() * abs(p[number == b].mean() - y[number == b].mean()) for b in set(number))
    assert expected_calibration_error(reliability(p.tolist(), y.tolist())) == pytest.approx(error, rel=1e-12)
    assert brier_score(p.tolist(), y.tolist()) == pytest.approx(np.mean((p - y) ** 2), rel=1e-12)


def test_a_model_that_says_what_it_gets_has_no_calibration_error() -> None:
    assert expected_calibration_error(reliability([0.25] * 4 + [0.75] * 4, [0, 0, 0, 1, 1, 1, 1, 0])) == 0.0
    assert expected_calibration_error(reliability([1.0, 1.0], [0.0, 0.0])) == 1.0
    assert expected_calibration_error([]) == 0.0


def test_probabilities_and_labels_must_pair() -> None:
    with pytest.raises(ValueError):
        reliability([0.1, 0.2], [1.0])
