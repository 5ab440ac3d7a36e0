"""Accuracy, Pass@K, Maj@K, their confidence intervals and the comparison of two checkpoints.

Pure functions of numbers, no I/O. `correct` is an array of 0/1 (or of per-problem rates), one entry a problem.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAJORITY_DRAWS = 200  # subsets of size k drawn when there are more of them than this


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k samples, drawn without replacement from n of which c are right, is right.

    pass@k = 1 - C(n-c, k) / C(n, k), the unbiased estimator of Chen et al. 2021 (arXiv 2107.03374, eq. 1),
    as the product 1 - prod_{i=n-c+1}^{n} (1 - k/i), which neither overflows nor cancels.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"need 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def majority(votes: Sequence[Hashable | None], right: frozenset[Hashable]) -> float:
    """Whether the most frequent vote is a right one; None abstains; a tie counts by the share of right ones in it.

    maj(v_1..v_k) = |W ∩ right| / |W|,  W = argmax_a sum_i 1[v_i = a]   (self-consistency, Wang et al. 2022, 2203.11171)
    """
    counts = Counter(v for v in votes if v is not None)
    if not counts:
        return 0.0
    most = max(counts.values())
    winners = [v for v, n in counts.items() if n == most]
    return sum(w in right for w in winners) / len(winners)


def maj_at_k(votes: Sequence[Hashable | None], right: frozenset[Hashable], k: int, seed: int = 0) -> float:
    """Mean of `majority` over the k-subsets of the votes: all, or MAJORITY_DRAWS random ones when there are more."""
    subsets = _subsets(len(votes), k, seed)
    return sum(majority([votes[i] for i in s], right) for s in subsets) / len(subsets)


def weighted_maj_at_k(
    votes: Sequence[Hashable | None], weights: Sequence[float], right: frozenset[Hashable], k: int, seed: int = 0
) -> float:
    """Mean of `weighted_majority` over the same k-subsets as `maj_at_k`."""
    subsets = _subsets(len(votes), k, seed)
    each = [weighted_majority([votes[i] for i in s], [weights[i] for i in s], right) for s in subsets]
    return sum(each) / len(subsets)


def _subsets(n: int, k: int, seed: int) -> list[tuple[int, ...]]:
    if not 1 <= k <= n:
        raise ValueError(f"need 1 <= k <= {n} votes, got k={k}")
    if math.comb(n, k) <= MAJORITY_DRAWS:
        return list(combinations(range(n), k))
    draw = np.random.default_rng(seed)
    return [tuple(draw.choice(n, k, replace=False)) for _ in range(MAJORITY_DRAWS)]


def weighted_majority(votes: Sequence[Hashable | None], weights: Sequence[float], right: frozenset[Hashable]) -> float:
    """`majority` with rewards for weights: W = argmax_a sum_i w_i 1[v_i = a] (Uesato et al. 2022, 2211.14275)."""
    totals: dict[Hashable, float] = {}
    for vote, weight in zip(votes, weights, strict=True):
        if vote is not None:
            totals[vote] = totals.get(vote, 0.0) + weight
    if not totals:
        return 0.0
    most = max(totals.values())
    winners = [v for v, total in totals.items() if total == most]
    return sum(w in right for w in winners) / len(winners)


def best_of_k(correct: Sequence[bool], rewards: Sequence[float], k: int) -> float:
    """Chance that the best rewarded of k samples, drawn without replacement from n, is right.

    best@k = sum_i correct_i [C(#{r <= r_i}, k) - C(#{r < r_i}, k)] / (C(n, k) #{r = r_i}),  equal rewards share.
    """
    n = len(correct)
    if not 1 <= k <= n:
        raise ValueError(f"need 1 <= k <= {n} samples, got k={k}")
    total = 0.0
    for r in set(rewards):
        below, equal = sum(x < r for x in rewards), [c for c, x in zip(correct, rewards, strict=True) if x == r]
        chosen = math.comb(below + len(equal), k) - math.comb(below, k)
        total += chosen * sum(equal) / len(equal)
    return total / math.comb(n, k)


def bootstrap_interval(
    values: ArrayLike, confidence: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over problems (Efron 1979).

    means_b = (1/n) sum_i values[I_b(i)], I_b(i) ~ U{1..n};  interval = quantiles (1∓confidence)/2 of the means.
    When no value differs from another the interval would have no width, whatever n; Wilson's is given instead then.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        raise ValueError("no values to take a mean of")
    if np.all(x == x[0]):
        return wilson_interval(float(x.sum()), x.size, confidence) if x[0] in (0.0, 1.0) else (float(x[0]), float(x[0]))
    means = _bootstrap_means(x, draws, seed)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def wilson_interval(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion p = successes/n (Wilson 1927), z the normal quantile of `confidence`.

    (p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)
    """
    from statistics import NormalDist

    p, z = successes / n, NormalDist().inv_cdf((1 + confidence) / 2)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (p + z * z / (2 * n) - half) / scale), min(1.0, (p + z * z / (2 * n) + half) / scale)


def paired_difference(
    before: ArrayLike, after: ArrayLike, confidence: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, tuple[float, float]]:
    """Mean of after - before on the same problems, with its paired bootstrap interval (pairs are drawn whole)."""
    b, a = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if b.shape != a.shape:
        raise ValueError(f"paired results need the same problems, got {b.size} and {a.size}")
    d = a - b
    if d.size and np.all(d == d[0]):  # nothing to draw: as wide as the data allow a rarer outcome to be
        room = wilson_interval(0, d.size, confidence)[1]
        return float(d[0]), (max(-1.0, float(d[0]) - room), min(1.0, float(d[0]) + room))
    return float(d.mean()), bootstrap_interval(d, confidence, draws, seed)


def mcnemar(before: ArrayLike, after: ArrayLike) -> float:
    """Two-sided exact p-value of McNemar's test that two checkpoints solve equally many of the same problems.

    With b problems only `before` solves and c only `after`: p = min(1, 2 sum_{i<=min(b,c)} C(b+c, i) / 2^(b+c)).
    """
    x, y = np.asarray(before, dtype=bool), np.asarray(after, dtype=bool)
    b, c = int(np.sum(x & ~y)), int(np.sum(~x & y))
    tail = sum(math.comb(b + c, i) for i in range(min(b, c) + 1))
    return min(1.0, float(2 * tail / 2 ** (b + c)))


def curve_points(n: int) -> list[int]:
    """The K of a curve up to n: the powers of two, and n itself."""
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}) if n else []


def _bootstrap_means(x: NDArray[np.float64], draws: int, seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    return np.array([x[generator.integers(0, x.size, x.size)].mean() for _ in range(draws)])
