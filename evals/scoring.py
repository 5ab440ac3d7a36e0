"""From samples to figures: accuracy, Maj@K, Pass@K with intervals, by level and subject; checkpoint against checkpoint.

In: the lines of samples files. Out: dictionaries of JSON values, as report.json holds them. No generation, no I/O.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from evals.metrics import (
    best_of_k,
    bootstrap_interval,
    curve_points,
    maj_at_k,
    mcnemar,
    paired_difference,
    pass_at_k,
    weighted_maj_at_k,
    wilson_interval,
)
from evals.normal_form import normalize
from evals.quantities import parse_number

Line = dict[str, Any]


@dataclass(frozen=True)
class Intervals:
    """How the confidence intervals are made."""

    confidence: float = 0.95
    draws: int = 2000
    seed: int = 0

    def of(self, values: list[float]) -> list[float]:
        """The bootstrap interval of the mean."""
        return [*bootstrap_interval(values, self.confidence, self.draws, self.seed)]


def per_problem(lines: list[Line]) -> dict[str, dict[str, float]]:
    """metric -> problem id -> value between 0 and 1.

    Metrics are accuracy (greedy), and for a few k maj@k, pass@k and, with rewards, best-of@k and weighted-maj@k.
    """
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        completions = line["completions"]
        if not completions:
            continue
        if line["mode"] == "greedy":
            values["accuracy"][line["id"]] = float(completions[0]["correct"])
            continue
        votes, right = vote(completions)
        correct = sum(c["correct"] for c in completions)
        for k in curve_points(len(completions)):
            values[f"maj@{k}"][line["id"]] = maj_at_k(votes, right, k)
            values[f"pass@{k}"][line["id"]] = pass_at_k(len(completions), correct, k)
        _rewarded(values, line["id"], completions, votes, right)
    return dict(values)


def _rewarded(
    values: dict[str, dict[str, float]],
    problem: str,
    completions: list[Line],
    votes: list[str | None],
    right: frozenset[str],
) -> None:
    """best-of@k and weighted-maj@k, where a reward model has scored every sample (rl/reward/score.py)."""
    if not all("reward" in c for c in completions):
        return
    rewards = [float(c["reward"]) for c in completions]
    for k in curve_points(len(completions)):
        values[f"best-of@{k}"][problem] = best_of_k([c["correct"] for c in completions], rewards, k)
        values[f"weighted-maj@{k}"][problem] = weighted_maj_at_k(votes, rewards, right, k)


def vote(completions: list[Line]) -> tuple[list[str | None], frozenset[str]]:
    """Each completion's vote (equal answers vote alike; without an answer it abstains) and the right votes.

    Answers judged right are one vote, however they are written; wrong ones are told apart by value or spelling.
    """
    votes = [None if c["answer"] is None else "right" if c["correct"] else _spelling(c["answer"]) for c in completions]
    return votes, frozenset({"right"})


def _spelling(answer: str) -> str:
    plain = normalize(answer)
    number = parse_number(plain)
    return f"={number.value}" if number else f"text {plain}"


def summarize(lines: list[Line], intervals: Intervals) -> dict[str, Any]:
    """The figures of one checkpoint on one benchmark."""
    values = per_problem(lines)
    greedy = [line for line in lines if line["mode"] == "greedy" and line["completions"]]
    first = [line["completions"][0] for line in greedy]
    n = len(first)
    return {
        "problems": n,
        "skipped": sum(bool(line["skipped"]) for line in lines if line["mode"] == "greedy"),
        "samples": max((len(line["completions"]) for line in lines if line["mode"] == "sampled"), default=0),
        "metrics": {
            name: {"value": sum(v.values()) / len(v), "interval": intervals.of(list(v.values()))}
            for name, v in values.items()
        },
        "no_answer": sum(c["answer"] is None for c in first) / n if n else 0.0,
        "cut_off": sum(c["finish_reason"] == "length" for c in first) / n if n else 0.0,
        "mean_tokens": sum(c["tokens"] for c in first) / n if n else 0.0,
        "tokens": sum(c["tokens"] for line in lines for c in line["completions"]),
        "by_level": _grouped(greedy, lambda line: line["level"], intervals.confidence),
        "by_subject": _grouped(greedy, lambda line: line["subject"], intervals.confidence),
        "by_length": _grouped(greedy, length_group(lines), intervals.confidence),
    }


def length_group(lines: list[Line]) -> Callable[[Line], str | None]:
    """Which quarter of the benchmark's questions, by their length in characters, a question belongs to.

    The length is the question's, not the solution's: every benchmark has one, and it is the same for every checkpoint.
    """
    lengths = sorted(len(line["question"]) for line in lines if line["mode"] == "greedy")
    edges = sorted({lengths[len(lengths) * i // 4] for i in (1, 2, 3)} - set(lengths[:1])) if lengths else []
    bounds = [*lengths[:1], *edges, *(n + 1 for n in lengths[-1:])]
    width = len(str(bounds[-1])) if bounds else 0  # so that the names sort as their numbers do
    names = [f"{a:{width}} to {b - 1}" for a, b in pairwise(bounds)]
    return lambda line: names[bisect_right(edges, len(line["question"]))]


def _grouped(greedy: list[Line], key: Callable[[Line], str | None], confidence: float) -> dict[str, dict[str, Any]]:
    """group -> accuracy, its Wilson interval (groups may be small), the number of problems."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for line in greedy:
        if (name := key(line)) is not None:
            groups[name].append(line["completions"][0]["correct"])
    return {
        name: {
            "accuracy": sum(c) / len(c),
            "interval": [*wilson_interval(sum(c), len(c), confidence)],
            "problems": len(c),
        }
        for name, c in sorted(groups.items())
    }


def compare(before: list[Line], after: list[Line], intervals: Intervals) -> dict[str, dict[str, Any]]:
    """metric -> difference after - before on the problems both answered, its paired interval, McNemar's p (accuracy).

    Of Maj@k and Pass@k only the largest k is compared.
    """
    left, right = per_problem(before), per_problem(after)
    result = {}
    for metric in _headline(left.keys() & right.keys()):
        ids = sorted(left[metric].keys() & right[metric].keys())
        b, a = [left[metric][i] for i in ids], [right[metric][i] for i in ids]
        if not ids:
            continue
        difference, interval = paired_difference(b, a, intervals.confidence, intervals.draws, intervals.seed)
        result[metric] = {"difference": difference, "interval": [*interval], "problems": len(ids)}
        if metric == "accuracy":
            result[metric]["p"] = mcnemar(b, a)
    return result


def _headline(metrics: Any) -> list[str]:
    """`accuracy`, and Maj@K and Pass@K at their largest K."""
    largest = max((int(m.split("@")[1]) for m in metrics if "@" in m), default=0)
    return [m for m in ("accuracy", f"maj@{largest}", f"pass@{largest}") if m in metrics]
