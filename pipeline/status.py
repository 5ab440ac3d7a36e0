"""Shows where a run stands: every stage's state, progress, key figures and log.

    python -m pipeline.status runs/tiny

States: published, stale (published under other settings than the plan's), running, queued (Slurm), interrupted (begun,
nobody at work; it resumes), failed, waiting.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline import figures, progress
from pipeline.run_dir import RunDir
from pipeline.stages import STAGE_NAMES
from stage import EXIT_USAGE, UsageError
from stage.progress import duration

FRESH_SECONDS = 60.0  # a stage on another machine is taken to be alive if it reported progress this lately


def state_of(run_dir: RunDir, stage: str) -> tuple[str, str]:
    """(state, a few words about it) of one stage."""
    planned = (run_dir.plan() or {"stages": {}})["stages"].get(stage, {}).get("fingerprint")
    manifest, attempt, doing = run_dir.manifest(stage), run_dir.attempt(stage), run_dir.progress(stage)
    begun = run_dir.work_fingerprint(stage) is not None
    done = progress.line(doing).removeprefix(f"{stage}: ") if doing else ""
    if attempt and attempt.alive():
        return "running", f"process {attempt.pid}; {done or 'starting'}"
    if attempt and attempt.job and attempt.exit_code is None:
        from pipeline.executors.slurm import job_state

        job = job_state(attempt.job)
        if job is not None:
            return ("running" if job == "RUNNING" else "queued"), f"job {attempt.job} {job.lower()}; {done}".rstrip(
                "; "
            )
    if (
        begun
        and doing
        and time.time() - doing["time"] < FRESH_SECONDS
        and not (attempt and attempt.exit_code is not None)
    ):
        return "running", done
    if attempt and attempt.exit_code not in (None, 0) and attempt.fingerprint == planned:
        state = "preempted" if attempt.exit_code == 75 else "failed"
        return state, attempt.error or f"exit code {attempt.exit_code}"
    if manifest and manifest["fingerprint"] == planned:
        return "published", figures.of_manifest(manifest)
    if begun:
        return "interrupted", f"resumes; was at {done}" if done else "resumes"
    return ("stale", figures.of_manifest(manifest)) if manifest else ("waiting", "")


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
    parser = argparse.ArgumentParser(prog="python -m pipeline.status", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    args = parser.parse_args(argv)
    try:
        run_dir = RunDir(args.run_dir)
        if run_dir.plan() is None:
            raise UsageError(f"{args.run_dir}: not a run directory (no plan.json); `python -m pipeline.run` makes one")
        stage_table(run_dir)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
