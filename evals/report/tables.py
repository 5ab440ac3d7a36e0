"""The report's tables as rows of text, shared by the Markdown and the HTML page."""

from dataclasses import dataclass
from typing import Any

Report = dict[str, Any]
NAMES = {"pretrain": "base (pretrain)", "sft": "SFT", "grpo": "GRPO"}
GROUPINGS = {"level": "level", "subject": "subject", "length": "length of the question in characters"}
ROUNDS = {  # the corpus rounds' fields where their names do not say enough
    "cut": "score at the cut",
    "overlap": "collected before",
    "recall": "recall of known pages",
    "held_out_precision": "precision, held out",
    "held_out_recall": "recall, held out",
    "held_out_auc": "AUC, held out",
}
UP, DOWN = "▲", "▼"


@dataclass(frozen=True)
class Table:
    """A table. The first column holds text, the others numbers; `ours` are the rows that this run made."""

    header: list[str]
    rows: list[list[str]]
    ours: frozenset[int] = frozenset()


def percent(x: float, signed: bool = False) -> str:
    """0.123 -> 12.3."""
    return f"{100 * x:+.1f}" if signed else f"{100 * x:.1f}"


def with_interval(metric: dict[str, Any]) -> str:
    """`61.5 (54.5 to 68.0)`."""
    low, high = metric["interval"]
    return f"{percent(metric['value'])} ({percent(low)} to {percent(high)})"


def checkpoint_name(name: str) -> str:
    """A stage's name as the report says it."""
    return NAMES.get(name, name)


def main_table(report: Report) -> Table:
    """Greedy accuracy of every checkpoint with its interval, the paper's rows below."""
    titles = report["benchmarks"]
    rows = [
        [f"this run, {checkpoint_name(c)}", *(_cell(report["results"][b].get(c)) for b in titles)]
        for c in report["checkpoints"]
    ]
    ours = len(rows)
    rows += [[f"paper, {p['model']}", *(str(p[b]) if b in p else "–" for b in titles)] for p in report["paper"]]
    return Table(
        ["Model", *(f"{t} (n={_problems(report, b)})" for b, t in titles.items())], rows, frozenset(range(ours))
    )


def vote_table(report: Report, benchmark: str) -> Table | None:
    """Maj@k and Pass@k of every checkpoint, Best-of@k and Weighted-maj@k with rewards; None without samples."""
    results = report["results"][benchmark]
    ks = sorted({int(m.split("@")[1]) for r in results.values() for m in r["metrics"] if "@" in m})
    if not ks:
        return None
    rows = []
    for kind in ("maj", "pass", "best-of", "weighted-maj"):
        for c, result in results.items():
            cells = [result["metrics"].get(f"{kind}@{k}") for k in ks]
            if any(cells):
                name = f"{kind.capitalize()}@K, {checkpoint_name(c)}"
                rows.append([name, *(with_interval(m) if m else "–" for m in cells)])
    return Table(["", *(f"K = {k}" for k in ks)], rows)


def comparison_table(report: Report) -> Table:
    """What each training stage changed on the same problems; ▲ ▼ where the interval excludes zero."""
    rows = []
    for c in report["comparisons"]:
        metrics, step = c["metrics"], f"{checkpoint_name(c['before'])} → {checkpoint_name(c['after'])}"
        largest = next((m.split("@")[1] for m in metrics if "@" in m), "–")
        p = metrics.get("accuracy", {}).get("p")
        rows.append(
            [
                f"{report['benchmarks'][c['benchmark']]}: {step}",
                _change(metrics.get("accuracy")),
                "–" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}",
                _change(metrics.get(f"maj@{largest}")),
                _change(metrics.get(f"pass@{largest}")),
                largest,
            ]
        )
    return Table(["Step", "Accuracy (greedy)", "McNemar p", "Maj@K", "Pass@K", "K"], rows)


def _change(difference: dict[str, Any] | None) -> str:
    """`+33.7 (27.0 to 40.0) ▲`."""
    if difference is None:
        return "–"
    low, high = difference["interval"]
    mark = f" {UP}" if low > 0 else f" {DOWN}" if high < 0 else ""
    return f"{percent(difference['difference'], True)} ({percent(low)} to {percent(high)}){mark}"


def answer_table(report: Report) -> Table:
    """How the greedy answers ended: without an answer, cut off, their length."""
    rows = [
        [
            f"{title}, {checkpoint_name(c)}",
            str(r["problems"]),
            str(r["skipped"]),
            percent(r["no_answer"]),
            percent(r["cut_off"]),
            f"{r['mean_tokens']:.0f}",
            f"{r['tokens']:,}",
        ]
        for b, title in report["benchmarks"].items()
        for c, r in report["results"][b].items()
    ]
    head = ["", "Problems", "Skipped", "No answer %", "Cut off %", "Tokens an answer", "Tokens in all"]
    return Table(head, rows)


def group_table(report: Report, benchmark: str, by: str) -> Table | None:
    """Accuracy by `level`, `subject` or `length`; None when the benchmark doesn't tell, or tells one group only."""
    results = report["results"][benchmark]
    groups = sorted({g for r in results.values() for g in r[f"by_{by}"]})
    if len(groups) < 2:
        return None
    rows = [[checkpoint_name(c), *(_group_cell(r[f"by_{by}"].get(g)) for g in groups)] for c, r in results.items()]
    sizes = {g: max(r[f"by_{by}"].get(g, {}).get("problems", 0) for r in results.values()) for g in groups}
    return Table(["", *(f"{g} (n={sizes[g]})" for g in groups)], rows)


def rounds_table(report: Report) -> Table | None:
    """The corpus stage's rounds, with the fields it reported."""
    rounds = report["corpus_rounds"]
    if not rounds:
        return None
    keys = [k for k in rounds[0] if all(isinstance(r.get(k), int | float | str | list) for r in rounds)]
    rows = [[_number(len(r[k]) if isinstance(r[k], list) else r[k]) for k in keys] for r in rounds]
    return Table([round_name(k) for k in keys], rows)


def round_name(field: str) -> str:
    """A field of the corpus rounds as the report says it."""
    return ROUNDS.get(field, field.replace("_", " "))


def reward_table(report: Report) -> Table | None:
    """How good the reward model is on the steps of held-out questions; None without the stage or its figures."""
    r = report["reward_model"]
    rows = [
        ["Steps of held-out questions", _number(r.get("held_out_steps", "–"))],
        ["Accuracy of p(good) > 1/2 on steps, %", _share(r.get("held_out_step_accuracy"))],
        ["The same for always guessing the commoner label, %", _share(r.get("held_out_constant_guess_accuracy"))],
        ["Accuracy on whole solutions (weakest step), %", _share(r.get("held_out_solution_accuracy"))],
        ["Expected calibration error, points", _share(r.get("held_out_calibration_error"))],
        ["Brier score (0 is perfect)", _number(r.get("held_out_brier_score", "–"))],
    ]
    return Table(["Reward model", "Value"], rows) if r else None


def reliability_table(report: Report) -> Table | None:
    """The points of the reliability curve; None for a reward stage that did not write them."""
    curve = report["reward_model"].get("held_out_reliability")
    rows = [[f"{p['predicted']:.3f}", f"{p['label']:.3f}", _number(p["steps"])] for p in curve or ()]
    return Table(["Predicted p(good), mean of the bin", "Label, mean", "Steps"], rows) if curve else None


def stage_table(report: Report) -> Table:
    """What each stage cost and counted, with the sum of what can be summed."""
    stages = report["stages"]
    rows = [
        [
            s["stage"],
            _duration(s["wall_seconds"]),
            _number(s["processes"]),
            _hours(s["gpu_hours"]),
            "–" if s["tokens"] is None else _number(s["tokens"]),
            "–" if s["peak_memory_bytes"] is None else f"{s['peak_memory_bytes'] / 2**30:.2f} GiB",
            _number(s["in"]),
            _number(s["out"]),
            _number(s["dropped"]),
        ]
        for s in stages
    ]
    if len(stages) > 1:
        gpu = None if any(s["gpu_hours"] is None for s in stages) else sum(s["gpu_hours"] for s in stages)
        rows.append(["all", _duration(sum(s["wall_seconds"] for s in stages)), "", _hours(gpu), *[""] * 5])
    head = ["Stage", "Wall time", "Processes", "GPU hours", "Tokens", "Peak memory"]
    return Table([*head, "Records in", "Records out", "Dropped"], rows)


def _cell(result: dict[str, Any] | None) -> str:
    accuracy = result["metrics"].get("accuracy") if result else None
    return with_interval(accuracy) if accuracy else "–"


def _group_cell(group: dict[str, Any] | None) -> str:
    return percent(group["accuracy"]) if group else "–"


def _problems(report: Report, benchmark: str) -> int:
    return max(int(r["problems"]) for r in report["results"][benchmark].values())


def _share(x: float | None) -> str:
    return "–" if x is None else percent(x)


def _hours(x: float | None) -> str:
    return "–" if x is None else "none" if x == 0 else f"{x:,.2f}"


def _duration(seconds: float) -> str:
    """`45 s`, `4 min 14 s`, `31 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _number(x: Any) -> str:
    if isinstance(x, float):
        return f"{x:.4g}"
    return f"{x:,}" if isinstance(x, int) else str(x)
