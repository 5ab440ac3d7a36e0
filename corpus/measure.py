"""How well a classifier does on the examples kept out of its training.

Comes in: scores, which of them are of positives, and the languages of their texts. Goes out: figures for the manifest.
Precision and calibration depend on how many positives there are: they hold for the mix of the examples (the paper's is
half and half), not for the crawl, where mathematics is rare.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
BINS = 10


@dataclass(frozen=True)
class HeldOut:
    """Examples kept out of training, one a position."""

    scores: Scores
    positive: npt.NDArray[np.bool_]
    languages: list[str]

    def of_language(self, language: str) -> "HeldOut":
        """The examples in one language."""
        chosen = np.array([spoken == language for spoken in self.languages], dtype=bool)
        return HeldOut(self.scores[chosen], self.positive[chosen], [language] * int(chosen.sum()))


def figures(held_out: HeldOut, cut: float) -> dict[str, Any]:
    """Precision and recall at the cut, area under the ROC curve: over all, and by language; the reliability bins."""
    languages = sorted(set(held_out.languages))
    curve = reliability(held_out.scores, held_out.positive)
    return {
        "held_out": _at(held_out, cut),
        "held_out_by_language": {language: _at(held_out.of_language(language), cut) for language in languages},
        "held_out_reliability": curve,
        "held_out_calibration_error": calibration_error(curve),
    }


def _at(held_out: HeldOut, cut: float) -> dict[str, Any]:
    reached, positive = held_out.scores >= cut, held_out.positive
    return {
        "positives": int(positive.sum()),
        "negatives": int((~positive).sum()),
        "precision": _share(positive[reached]),
        "recall": _share(reached[positive]),
        "auc": auc(held_out.scores[positive], held_out.scores[~positive]),
    }


def auc(positive: Scores, negative: Scores) -> float | None:
    """Probability that a positive scores above a negative, ties counting half (the area under the ROC curve)."""
    if not len(positive) or not len(negative):
        return None
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left")
    not_above = np.searchsorted(ordered, positive, "right")
    return float((below + not_above).sum() / 2 / len(positive) / len(negative))


def reliability(scores: Scores, positive: npt.NDArray[np.bool_], bins: int = BINS) -> list[dict[str, float]]:
    """For each of `bins` equal ranges of the score that has examples: their mean score, share of positives, number."""
    place = np.minimum((scores * bins).astype(int), bins - 1)
    return [
        {
            "predicted": float(scores[place == b].mean()),
            "label": float(positive[place == b].mean()),
            "examples": int((place == b).sum()),
        }
        for b in range(bins)
        if (place == b).any()
    ]


def calibration_error(curve: Iterable[dict[str, float]]) -> float | None:
    """Mean over the examples of |mean score - share of positives| of their bin (Naeini et al. 2015)."""
    curve = list(curve)
    examples = sum(b["examples"] for b in curve)
    return sum(b["examples"] * abs(b["predicted"] - b["label"]) for b in curve) / examples if examples else None


def _share(flags: npt.NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if len(flags) else None
