"""Runs the recipe, or a part of it: every stage that is not up to date, in order, on this machine or on Slurm.

    python -m pipeline.run --profile tiny --stages all
    python -m pipeline.run --profile tiny --stages grpo,evals --set grpo.kl_coef=0.02
    python -m pipeline.run --profile 7b --stages all --dry-run

Exit codes: 0 all done; 2 a wrong profile, option or input, said in one line; 130 stopped by Ctrl-C, 75 by SIGTERM: the
same command goes on; otherwise that of the stage that failed.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.stages import STAGES, StageSpec, select
from stage import EXIT_INTERRUPTED, EXIT_REQUEUE, UsageError, outcome, parser

if TYPE_CHECKING:
    from pipeline.config import Profile
    from pipeline.decisions import Decision
    from pipeline.executors import Executor
    from pipeline.plan import PlannedStage
    from pipeline.run_dir import RunDir


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    args = _options().parse_args(argv)
    code = outcome(lambda: _main(args))
    if code in (EXIT_INTERRUPTED, EXIT_REQUEUE):
        print(f"to go on: {_same_command(args)}", file=sys.stderr)
    return code


def _options() -> argparse.ArgumentParser:
    options = parser(__doc__)
    options.add_argument(
        "--profile", default="tiny", help="a profile of pipeline/profiles, or a YAML file (%(default)s)"
    )
    options.add_argument("--stages", default="all", help="all | grpo,evals | sft.. | ..sft | sft..grpo (%(default)s)")
    options.add_argument("--run-dir", type=Path, help="where everything is written (runs/<profile name>)")
    options.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
                        help="override a value of the profile, as in grpo.kl_coef=0.02; may be repeated")  # fmt: skip
    options.add_argument(
        "--force", action="append", default=[], metavar="STAGE", help="run STAGE although it is up to date"
    )
    options.add_argument("--executor", choices=("local", "slurm"), default="local", help="(%(default)s)")
    options.add_argument("--dry-run", action="store_true", help="show what would run and why; write nothing")
    return options


def _main(args: argparse.Namespace) -> int:
    from pipeline.config import load_profile
    from pipeline.run_dir import RunDir

    selected = select(args.stages)
    forced = [name for item in args.force for name in select(item)]
    if outside := [name for name in forced if name not in selected]:
        raise UsageError(f"--force {outside[0]}: not among the selected stages ({', '.join(selected)})")
    profile = load_profile(args.profile, args.overrides)
    run_dir = RunDir(args.run_dir or Path("runs") / profile.name)
    if args.dry_run:
        return dry_run(profile, run_dir, selected, forced, args.executor)
    try:
        with run_dir.lock():
            return run(profile, run_dir, selected, forced, args.executor)
    except OSError as error:  # a full disk, a folder of somebody else's
        raise UsageError(f"{error.filename or run_dir.path}: {error.strerror or error}") from None


def _same_command(args: argparse.Namespace) -> str:
    """The command again, less --force, which would throw away what the stopped stage has done."""
    python, here = Path(sys.executable), Path.cwd()
    words = [str(python.relative_to(here) if python.is_relative_to(here) else python), "-m", "pipeline.run"]
    words += ["--profile", args.profile, "--stages", args.stages]
    words += ["--run-dir", str(args.run_dir)] if args.run_dir else []
    words += [word for override in args.overrides for word in ("--set", override)]
    return shlex.join(words + (["--executor", args.executor] if args.executor != "local" else []))


def run(
    profile: Profile,
    run_dir: RunDir,
    selected: Sequence[str],
    forced: Sequence[str],
    executor: str,
    specs: Sequence[StageSpec] = STAGES,
) -> int:
    """Plan, run what is not up to date, and print what came of it. Hold the run directory's lock to call this."""
    from pipeline.decisions import decide
    from pipeline.plan import make_plan, write_plan
    from stage.context import remove

    began = time.monotonic()
    plan = make_plan(profile, run_dir, specs)
    decisions = decide(plan, run_dir, selected, forced)
    todo = [d.stage for d in decisions if d.run]
    for stage in todo:
        if stage.missing:
            more = f" (and {len(stage.missing) - 1} more)" if len(stage.missing) > 1 else ""
            raise UsageError(f"{stage.missing[0]}: no such input file, which stage {stage.name} needs{more}")
    runner = _executor(executor, run_dir, profile, todo)
    for name in forced:
        remove(run_dir.path / ".work" / name)
    write_plan(plan, profile, run_dir)
    for d in decisions:
        print(f"{d.stage.name}: {'to run' if d.run else 'skipped'} ({d.reason})", flush=True)
    code = runner.run(todo)
    if code == 0:
        _summary(decisions, run_dir, time.monotonic() - began)
    return code


def _executor(kind: str, run_dir: RunDir, profile: Profile, todo: list[PlannedStage]) -> Executor:
    if kind == "slurm":
        from pipeline.executors.slurm import SlurmExecutor

        return SlurmExecutor(run_dir, profile)
    from pipeline.executors.local import LocalExecutor

    for stage in todo:
        if stage.nnodes > 1:
            raise UsageError(
                f"{stage.name}.parallel.nnodes: {stage.nnodes} nodes, but the local executor has one; "
                "use --executor slurm"
            )
    return LocalExecutor(run_dir)


def dry_run(
    profile: Profile,
    run_dir: RunDir,
    selected: Sequence[str],
    forced: Sequence[str],
    executor: str,
    specs: Sequence[StageSpec] = STAGES,
) -> int:
    """Print each selected stage's command, inputs and settings, and why it would run or not. Writes nothing."""
    from pipeline.decisions import decide
    from pipeline.plan import make_plan

    print(f"profile {profile.name}, run directory {run_dir.path} (dry run: nothing is started or written)")
    for d in decide(make_plan(profile, run_dir, specs), run_dir, selected, forced):
        for text in _description(d, profile, run_dir, executor):
            print(text)
    return 0


def _description(decision: Decision, profile: Profile, run_dir: RunDir, executor: str) -> list[str]:
    from pipeline import figures
    from pipeline.executors.slurm import sbatch_command

    stage = decision.stage
    command = stage.command("python", run_dir.path)
    if executor == "slurm":
        command = sbatch_command(stage, profile, run_dir, [f"JOB_OF_{name.upper()}" for name in stage.inputs])
    files = Counter(f"{e['key']} {e['pattern']}" for e in stage.ingredients["files"])
    named = [name if n == 1 else f"{name} ({n} files)" for name, n in files.items()]
    inputs = [*(str(run_dir.path / name) for name in stage.inputs), *named]
    nodes = f"   (on each of {stage.nnodes} nodes)" if stage.nnodes > 1 and executor == "local" else ""
    return [
        f"\n{stage.name}: {'would run' if decision.run else 'would be skipped'} ({decision.reason})",
        f"  settings  {figures.of_profile(profile, stage.name)}",
        f"  command   {shlex.join(command)}{nodes}",
        f"  slurm     slurm/{stage.spec.script}",
        f"  inputs    {', '.join(inputs) or 'none'}",
        *(f"  missing input {text}" for text in stage.missing),
        f"  output    {run_dir.path / stage.name}",
    ]


def _summary(decisions: Sequence[Decision], run_dir: RunDir, seconds: float) -> None:
    from pipeline.status import stage_table
    from stage.progress import duration

    ran = [d.stage.name for d in decisions if d.run]
    print()
    stage_table(run_dir, [d.stage.name for d in decisions])
    what = f"ran {', '.join(ran)}" if ran else "everything is up to date, nothing was run"
    print(f"{what}; {duration(seconds)}")
    report = run_dir.path / "evals" / "report.md"
    if report.is_file():
        print(f"report: {report}")


if __name__ == "__main__":
    sys.exit(main())
