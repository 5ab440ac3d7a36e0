"""Writes the three forms of the report."""

import json
from pathlib import Path
from typing import Any

from evals.report.content import Samples
from evals.report.html import html
from evals.report.markdown import markdown
from stage import atomic_write


def write_report(folder: Path, report: dict[str, Any], samples: Samples, cap: int) -> None:
    """report.json, report.md and report.html in `folder`; the page's viewer holds at most `cap` completions."""
    atomic_write(folder / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    atomic_write(folder / "report.md", markdown(report))
    atomic_write(folder / "report.html", html(report, samples, cap))
