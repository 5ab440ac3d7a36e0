"""The metrics against their formulas, recomputed in float64 the long way."""

import math
from itertools import combinations

import numpy as np
import pytest

from evals.metrics import (
    best_of_k,
    bootstrap_interval,
    curve_points,
    maj_at_k,
    majority,
    mcnemar,
    paired_difference,
    pass_at_k,
    weighted_maj_at_k,
    weighted_majority,
    wilson_interval,
)

RIGHT = frozenset({"right"})


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(n: int) -> None:
    for c in range(n + 1):
        outcome = np.array([1.0] * c + [0.0] * (n - c))
        for k in range(1, n + 1):
            subsets = [outcome[list(s)].max() for s in combinations(range(n), k)]
            assert pass_at_k(n, c, k) == pytest.approx(np.mean(subsets), abs=1e-12)


def test_pass_at_k_is_exact_where_binomials_overflow_floats() -> None:
    exact = 1 - math.comb(19_990, 300) / math.comb(20_000, 300)
    assert pass_at_k(20_000, 10, 300) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5)])
def test_pass_at_k_refuses_impossible_counts(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="n="):
        pass_at_k(n, c, k)


def test_majority_counts_votes_splits_ties_and_ignores_abstentions() -> None:
    assert majority(["right", "right", "a"], RIGHT) == 1.0
    assert majority(["right", "a", "a"], RIGHT) == 0.0
    assert majority(["right", "a"], RIGHT) == 0.5
    assert majority(["right", "a", "b"], RIGHT) == pytest.approx(1 / 3)
    assert majority(["right", None, None, None], RIGHT) == 1.0
    assert majority([None, None], RIGHT) == 0.0


def test_maj_at_k_averages_over_all_subsets() -> None:
    votes = ["right", "a", "right", None, "b", "a", "right"]
    for k in range(1, len(votes) + 1):
        long_way = np.mean([majority([votes[i] for i in s], RIGHT) for s in combinations(range(len(votes)), k)])
        assert maj_at_k(votes, RIGHT, k) == pytest.approx(long_way, abs=1e-12)


def test_weighted_majority_adds_rewards_instead_of_counting() -> None:
    assert weighted_majority(["right", "a", "a"], [0.9, 0.3, 0.3], RIGHT) == 1.0
    assert weighted_majority(["right", "a", "a"], [0.5, 0.3, 0.3], RIGHT) == 0.0
    assert weighted_majority(["right", "a"], [0.5, 0.5], RIGHT) == 0.5
    assert weighted_majority([None, "right"], [0.9, 0.1], RIGHT) == 1.0
    assert weighted_majority([None], [0.9], RIGHT) == 0.0


def test_weighted_maj_at_k_averages_over_all_subsets() -> None:
    votes, weights = ["right", "a", "right", None, "b", "a"], [0.2, 0.7, 0.3, 0.9, 0.1, 0.4]
    for k in range(1, len(votes) + 1):
        subsets = list(combinations(range(len(votes)), k))
        long_way = np.mean([weighted_majority([votes[i] for i in s], [weights[i] for i in s], RIGHT) for s in subsets])
        assert weighted_maj_at_k(votes, weights, RIGHT, k) == pytest.approx(long_way, abs=1e-12)


def test_equal_weights_make_the_plain_majority() -> None:
    votes = ["right", "a", "right", "b", "a"]
    for k in range(1, 6):
        assert weighted_maj_at_k(votes, [1.0] * 5, RIGHT, k) == pytest.approx(maj_at_k(votes, RIGHT, k), abs=1e-12)


@pytest.mark.parametrize("rewards", [[0.1, 0.9, 0.5, 0.3, 0.7], [0.5, 0.5, 0.5, 0.2, 0.9], [1.0] * 5])
def test_best_of_k_is_the_share_of_subsets_whose_best_is_right(rewards: list[float]) -> None:
    correct = [True, False, True, True, False]
    for k in range(1, 6):
        shares = []
        for s in combinations(range(5), k):
            best = [i for i in s if rewards[i] == max(rewards[j] for j in s)]
            shares.append(np.mean([correct[i] for i in best]))
        assert best_of_k(correct, rewards, k) == pytest.approx(np.mean(shares), abs=1e-12)


def test_maj_at_k_of_many_votes_draws_subsets_close_to_the_mean_and_repeatably() -> None:
    votes = ["right"] * 30 + ["a"] * 20
    one = maj_at_k(votes, RIGHT, 1)
    assert one == maj_at_k(votes, RIGHT, 1)
    exact = sum(
        math.comb(30, r) * math.comb(20, 5 - r) / math.comb(50, 5) for r in range(3, 6)
    )  # three or more right of five
    assert maj_at_k(votes, RIGHT, 5) == pytest.approx(exact, abs=0.1)


def test_bootstrap_interval_is_that_of_its_formula() -> None:
    values = np.array([1, 0, 0, 1, 1, 0, 1, 1, 0, 1], dtype=np.float64)
    generator = np.random.default_rng(3)
    means = [values[generator.integers(0, 10, 10)].sum() / 10 for _ in range(500)]
    assert bootstrap_interval(values, 0.9, 500, 3) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))


def test_bootstrap_interval_nears_the_normal_one() -> None:
    values = np.array([1.0] * 300 + [0.0] * 700)
    half = 1.959964 * math.sqrt(0.3 * 0.7 / 1000)
    assert bootstrap_interval(values, draws=4000) == pytest.approx((0.3 - half, 0.3 + half), abs=0.004)


def test_all_wrong_is_no_proof_of_zero() -> None:
    low, high = bootstrap_interval([0] * 100)
    assert low == 0.0
    assert 0.03 < high < 0.04  # the rule of three, about
    assert bootstrap_interval([1] * 100) == pytest.approx((1 - high, 1.0))


def test_wilson_interval_solves_its_equation() -> None:
    """Its ends are the p0 with |p - p0| = z sqrt(p0 (1-p0) / n)."""
    for end in wilson_interval(13, 40, 0.95):
        assert abs(13 / 40 - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / 40), rel=1e-6)


def test_paired_difference_is_narrower_than_unpaired_when_results_go_together() -> None:
    before = np.array([0, 1] * 100)
    after = before.copy()
    after[:20:2] = 1  # ten problems more, none less
    difference, (low, high) = paired_difference(before, after)
    assert difference == pytest.approx(0.05)
    assert 0.0 < low < 0.05 < high < 0.10


def test_no_difference_anywhere_still_has_an_interval_around_zero() -> None:
    difference, (low, high) = paired_difference([1, 0, 1, 0] * 10, [1, 0, 1, 0] * 10)
    assert difference == 0.0
    assert low == -high < 0


def test_paired_difference_needs_the_same_problems() -> None:
    with pytest.raises(ValueError, match="same problems"):
        paired_difference([1, 0], [1])


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 5), (3, 9), (7, 7), (0, 40)])
def test_mcnemar_is_a_two_sided_binomial_test(b: int, c: int) -> None:
    before = [1] * b + [0] * c + [1] * 4 + [0] * 6
    after = [0] * b + [1] * c + [1] * 4 + [0] * 6
    chances = np.array([math.comb(b + c, i) * 0.5 ** (b + c) for i in range(b + c + 1)])
    expected = min(1.0, 2 * chances[: min(b, c) + 1].sum())
    assert mcnemar(before, after) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("n", "points"), [(0, []), (1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_curves_stop_at_powers_of_two_and_the_end(n: int, points: list[int]) -> None:
    assert curve_points(n) == points
