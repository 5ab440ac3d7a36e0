"""Shows where a run stands: every stage's state, progress, key figures and log.

    python -m pipeline.status runs/tiny

States: published, stale (published under other settings than the plan's), running, queued (Slurm), interrupted (begun,
nobody at work; it resumes), failed, waiting.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline import figures, progress
from pipeline.run_dir import Attempt, RunDir
from pipeline.stages import STAGE_NAMES
from stage import EXIT_REQUEUE, UsageError, outcome, parser
from stage.progress import duration

FRESH_SECONDS = 60.0  # a stage on another machine is taken to be alive if it reported progress this lately


def state_of(run_dir: RunDir, stage: str) -> tuple[str, str]:
    """(state, a few words about it) of one stage."""
    planned = (run_dir.plan() or {"stages": {}})["stages"].get(stage, {}).get("fingerprint")
    manifest, attempt, doing = run_dir.manifest(stage), run_dir.attempt(stage), run_dir.progress(stage)
    done = progress.line(doing).removeprefix(f"{stage}: ") if doing else ""
    if at_work := _at_work(attempt, doing, done):
        return at_work
    if attempt and attempt.exit_code not in (None, 0) and attempt.fingerprint == planned:
        state = "preempted" if attempt.exit_code == EXIT_REQUEUE else "failed"
        return state, attempt.error or f"exit code {attempt.exit_code}"
    if manifest and manifest["fingerprint"] == planned:
        return "published", figures.of_manifest(manifest)
    if run_dir.work_fingerprint(stage) is not None:
        return "interrupted", f"resumes; was at {done}" if done else "resumes"
    return ("stale", figures.of_manifest(manifest)) if manifest else ("waiting", "")


def _at_work(attempt: Attempt | None, doing: progress.State | None, done: str) -> tuple[str, str] | None:
    """The state of a stage that somebody works on or that is queued; None when nobody does, as far as one can tell."""
    if attempt and attempt.alive():
        return "running", f"process {attempt.pid}; {done or 'starting'}"
    if attempt and attempt.job and attempt.exit_code is None:
        from pipeline.executors.slurm import NO_ANSWER, job_state

        job = job_state(attempt.job)
        if job not in (None, NO_ANSWER):
            state = "running" if job == "RUNNING" else "queued"
            return state, "; ".join(filter(None, (f"job {attempt.job} {job.lower()}", done)))
    ended = attempt is not None and attempt.exit_code is not None
    if doing and not ended and time.time() - doing["time"] < FRESH_SECONDS:
        return "running", done
    return None


def stage_table(run_dir: RunDir, stages: Sequence[str] = STAGE_NAMES) -> None:
    """Print the table of stages."""
    from rich.console import Console
    from rich.table import Table

    table = Table("stage", "state", "wall time", "key figures", "log", box=None, pad_edge=False)
    for stage in stages:
        state, about = state_of(run_dir, stage)
        manifest = run_dir.manifest(stage)
        wall = duration(manifest["wall_seconds"]) if manifest and state in ("published", "stale") else ""
        log = run_dir.log(stage)
        table.add_row(stage, state, wall, about, str(log) if log.is_file() else "")
    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    options = parser(__doc__)
    options.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="as runs/tiny")
    args = options.parse_args(argv)
    return outcome(lambda: _show(RunDir(args.run_dir)))


def _show(run_dir: RunDir) -> int:
    if run_dir.plan() is None:
        raise UsageError(f"{run_dir.path}: not a run directory (no plan.json); `python -m pipeline.run` makes one")
    stage_table(run_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
