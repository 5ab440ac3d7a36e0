"""report.html: one file with tables, charts and a viewer of samples; it needs no network and no server."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evals.report import charts, tables
from evals.report.content import Samples

LONGEST_TEXT = 3000  # characters of one output in the viewer


def html(report: dict[str, Any], samples: Samples, cap: int) -> str:
    """The report as one HTML page with at most `cap` completions in its viewer."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    shown = list(viewer_samples(samples, cap))
    total = sum(len(line["completions"]) for of in samples.values() for lines in of.values() for line in lines)
    return environment.get_template("template.html.j2").render(
        report=report,
        tables=tables,
        t=tables,
        accuracy_chart=Markup(accuracy_chart(report)),
        vote_charts={b: Markup(c) for b in report["benchmarks"] if (c := vote_chart(report, b))},
        curve_charts=curve_charts(report),
        samples=embed(shown),
        shown=len(shown),
        total=total,
    )


def accuracy_chart(report: dict[str, Any]) -> str:
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


def vote_chart(report: dict[str, Any], benchmark: str) -> str:
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


def curve_charts(report: dict[str, Any]) -> dict[str, list[tuple[str, Markup]]]:
    """stage -> (name, chart) of each training curve."""
    return {
        stage: [
            (tag, Markup(charts.line_chart([charts.Series(tag, points, 0)], f"{stage}: {tag}", "step")))
            for tag, points in curves.items()
            if len(points) > 1
        ]
        for stage, curves in report["curves"].items()
    }


def viewer_samples(samples: Samples, cap: int) -> Iterator[dict[str, Any]]:
    """At most `cap` completions, greedy ones first, taken in turn from each checkpoint and benchmark."""
    piles = [
        [_viewed(benchmark, checkpoint, line, c) for line in _greedy_first(lines) for c in line["completions"]]
        for benchmark, of in samples.items()
        for checkpoint, lines in of.items()
    ]
    in_turn = (s for row in zip_longest(*piles) for s in row if s is not None)
    yield from (s for s, _ in zip(in_turn, range(cap), strict=False))


def embed(data: Any) -> Markup:
    """JSON that may stand inside a <script>: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _greedy_first(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(lines, key=lambda line: line["mode"] != "greedy")


def _viewed(benchmark: str, checkpoint: str, line: dict[str, Any], completion: dict[str, Any]) -> dict[str, Any]:
    return {
        "b": benchmark,
        "c": checkpoint,
        "m": line["mode"],
        "i": line["id"],
        "q": line["question"],
        "g": line["gold"],
        "a": completion["answer"],
        "r": completion["correct"],
        "t": completion["text"][:LONGEST_TEXT],
        "n": completion["tokens"],
        "f": completion["finish_reason"],
    }
