"""The report of a run: report.json (the figures), report.md (to read anywhere), report.html (to look at)."""

from evals.report.content import gather
from evals.report.rollouts import Rollouts, read_rollouts
from evals.report.write import write_report

__all__ = ["Rollouts", "gather", "read_rollouts", "write_report"]
