"""What every stage shares: its place in a run directory, its manifest, its progress, its one-line errors.

Floor 0: imported by every other package, imports none of them and nothing heavier than PyYAML
(rich only on a terminal), so that `--help` and `status` stay instant. The exception is stage/section.py, the base of
the packages' sections of the profile, which needs pydantic: it is imported by name, never from here.
"""

from stage.command import outcome, parser
from stage.context import Preempted, Stage, run_stage, stage_main
from stage.errors import EXIT_INTERRUPTED, EXIT_REQUEUE, EXIT_USAGE, UsageError
from stage.files import atomic_write, sha256_file
from stage.jsonl import cut_back_jsonl, read_jsonl
from stage.progress import Progress

__all__ = [
    "EXIT_INTERRUPTED",
    "EXIT_REQUEUE",
    "EXIT_USAGE",
    "Preempted",
    "Progress",
    "Stage",
    "UsageError",
    "atomic_write",
    "cut_back_jsonl",
    "outcome",
    "parser",
    "read_jsonl",
    "run_stage",
    "sha256_file",
    "stage_main",
]
