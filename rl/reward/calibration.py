"""Whether the reward model's probabilities mean what they say: of the steps it calls good with p = 0.8, 80% should be.

Pure functions of the predicted p(good) and the labels y in [0, 1] (soft labels are themselves probabilities).
"""

from collections.abc import Sequence

BINS = 10


def reliability(predicted: Sequence[float], labels: Sequence[float], bins: int = BINS) -> list[dict[str, float]]:
    """Points of the reliability curve (DeGroot & Fienberg 1983), one a filled bin of equal width, by rising p:

        predicted_b = mean of p in the bin,  label_b = mean of y in the bin,  steps_b = how many

    A probability of 1 belongs to the last bin. Raises ValueError when the two differ in length.
    """
    groups: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for p, y in zip(predicted, labels, strict=True):
        groups[min(int(p * bins), bins - 1)].append((p, y))
    return [
        {
            "predicted": sum(p for p, _ in group) / len(group),
            "label": sum(y for _, y in group) / len(group),
            "steps": len(group),
        }
        for group in groups
        if group
    ]


def expected_calibration_error(curve: Sequence[dict[str, float]]) -> float:
    """sum_b (steps_b / steps) |predicted_b - label_b|  (Naeini et al. 2015); 0 without steps."""
    steps = sum(b["steps"] for b in curve)
    return sum(b["steps"] * abs(b["predicted"] - b["label"]) for b in curve) / steps if steps else 0.0


def brier_score(predicted: Sequence[float], labels: Sequence[float]) -> float:
    """Mean of (p - y)²  (Brier 1950). A constant guess of the mean label scores the labels' variance."""
    return sum((p - y) ** 2 for p, y in zip(predicted, labels, strict=True)) / len(labels)
