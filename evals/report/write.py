"""Writes the three forms of the report."""

import json
from pathlib import Path
from typing import Any

from evals.report.content import Samples
from evals.report.html import html
from evals.report.markdown import markdown
from evals.report.rollouts import Rollouts
from evals.report.viewer import viewer_data
from stage import atomic_write


def write_report(folder: Path, report: dict[str, Any], samples: Samples, cap: int, rollouts: Rollouts) -> None:
    """report.json, report.md and report.html in `folder`; the page's viewer holds `cap` answers and the rollouts."""
    atomic_write(folder / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    atomic_write(folder / "report.md", markdown(report))
    atomic_write(folder / "report.html", html(report, viewer_data(samples, cap, rollouts), totals(samples, rollouts)))


def totals(samples: Samples, rollouts: Rollouts) -> dict[str, int]:
    """How many answers and rollouts there are, shown or not."""
    answers = sum(len(line["completions"]) for of in samples.values() for lines in of.values() for line in lines)
    return {"answers": answers, "rollouts": rollouts.total}
