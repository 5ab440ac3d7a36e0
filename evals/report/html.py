"""report.html: one file with tables, charts and a viewer of answers and rollouts; it needs no network and no server."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from evals.report import charts, tables
from evals.report.page import embed, render

HERE = Path(__file__).parent
Report = dict[str, Any]
SHARES = ["recall", "overlap", "held_out_auc"]  # of the corpus rounds' fields
# the curves that tell most come first
FIRST = ("reward", "loss", "accuracy", "kl", "entropy", "output_length", "clip_fraction", "grad_norm", "lr")


def html(report: Report, viewer: dict[str, list[Any]], totals: dict[str, int]) -> str:
    """The report as one HTML page; `viewer` is viewer_data's, `totals` counts what there is beside what it shows."""
    reliability = report["reward_model"].get("held_out_reliability")
    return render(
        HERE / "template.html.j2",
        styles=[HERE / "report.css"],
        scripts=[HERE / "charts.js", HERE / "viewer.js"],
        report=report,
        t=tables,
        accuracy_chart=Markup(accuracy_chart(report)),
        vote_charts={b: Markup(c) for b in report["benchmarks"] if (c := vote_chart(report, b))},
        groups=group_sections(report),
        reliability_chart=Markup(charts.reliability_chart(reliability, "Reliability of p(good)"))
        if reliability
        else "",
        curve_charts=curve_charts(report),
        round_charts=round_charts(report),
        viewer=embed(viewer),
        names=embed({**report["benchmarks"], **{c: tables.checkpoint_name(c) for c in report["checkpoints"]}}),
        steps=sorted({row["p"] for row in viewer["rollouts"]}),
        shown={kind: len(viewer[kind]) for kind in totals},
        totals=totals,
    )


def accuracy_chart(report: Report) -> str:
    """Greedy accuracy, grouped by benchmark."""
    groups = []
    for benchmark, title in report["benchmarks"].items():
        bars = []
        for color, checkpoint in enumerate(report["checkpoints"]):
            accuracy = report["results"][benchmark].get(checkpoint, {}).get("metrics", {}).get("accuracy")
            if accuracy:
                low, high = accuracy["interval"]
                bars.append(charts.Bar(tables.checkpoint_name(checkpoint), accuracy["value"], low, high, color))
        groups.append((title, bars))
    return charts.bar_chart(groups, "Greedy accuracy of every checkpoint")


def vote_chart(report: Report, benchmark: str) -> str:
    """Pass@K (solid) and Maj@K (dashed) of every checkpoint; empty without samples."""
    series = []
    for color, (checkpoint, result) in enumerate(report["results"][benchmark].items()):
        for kind, dashed in (("pass", False), ("maj", True)):
            points = [
                [int(m.split("@")[1]), v["value"]] for m, v in result["metrics"].items() if m.startswith(f"{kind}@")
            ]
            name = f"{kind.capitalize()}@K, {tables.checkpoint_name(checkpoint)}"
            series.append(charts.Series(name, sorted(points), color, dashed))
    title = f"Maj@K and Pass@K on {report['benchmarks'][benchmark]}"
    return charts.line_chart(series, title, "K (samples)", log_x=True, percent=True)


def group_sections(report: Report) -> list[tuple[str, Markup, tables.Table]]:
    """(heading, chart, table) of every benchmark by level, subject and length, where these tell problems apart."""
    sections = []
    for benchmark, title in report["benchmarks"].items():
        for by, words in tables.GROUPINGS.items():
            if table := tables.group_table(report, benchmark, by):
                heading = f"{title} by {words}"
                sections.append((heading, Markup(group_chart(report, benchmark, by, heading)), table))
    return sections


def group_chart(report: Report, benchmark: str, by: str, title: str) -> str:
    """Accuracy of every checkpoint in each group of problems."""
    results = report["results"][benchmark]
    names = sorted({g for r in results.values() for g in r[f"by_{by}"]})
    rows = []
    for name in names:
        found = [(c, r[f"by_{by}"].get(name)) for c, r in results.items()]
        bars = [
            charts.Bar(f"{tables.checkpoint_name(c)}, {name}", g["accuracy"], g["interval"][0], g["interval"][1], color)
            for color, (c, g) in enumerate(found)
            if g
        ]
        rows.append((f"{name.strip()}  (n={max(g['problems'] for _, g in found if g)})", bars))
    return charts.dot_chart(rows, title)


def round_charts(report: Report) -> list[tuple[str, list[str], Markup]]:
    """(heading, names of the lines, chart) of the corpus rounds: what they kept, and the shares they reported."""
    rounds = report["corpus_rounds"]
    if len(rounds) < 2:
        return []
    drawn = []
    for heading, fields, percent in (("Pages kept", ["pages"], False), ("Shares", SHARES, True)):
        known = [f for f in fields if all(isinstance(r.get(f), int | float) for r in rounds)]
        lines = [
            charts.Series(tables.round_name(f), [[r.get("round", i), r[f]] for i, r in enumerate(rounds, 1)], i)
            for i, f in enumerate(known, 1)
        ]
        names = [line.name for line in lines] if len(lines) > 1 else []
        if lines:
            drawn.append((heading, names, Markup(charts.line_chart(lines, heading, "round", percent=percent))))
    return drawn


def curve_charts(report: Report) -> dict[str, list[tuple[str, Markup]]]:
    """stage -> (name, chart) of each training curve, the telling ones first."""

    def rank(tag: str) -> tuple[int, str]:
        return (FIRST.index(tag) if tag in FIRST else len(FIRST), tag)

    return {
        stage: [
            (tag, Markup(charts.line_chart([charts.Series(tag, curves[tag], 1)], f"{stage}: {tag}", "step")))
            for tag in sorted(curves, key=rank)
            if len(curves[tag]) > 1
        ]
        for stage, curves in report["curves"].items()
    }
