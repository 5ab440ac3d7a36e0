"""A graph of three small stages, corpus -> grpo -> evals, and the profile to run it with."""

from pathlib import Path

from pipeline.config import Profile, load_profile
from pipeline.plan import PlannedStage, make_plan
from pipeline.run_dir import RunDir
from pipeline.stages import InputFile, StageSpec


def specs(data: Path, torchrun: bool = False) -> tuple[StageSpec, ...]:
    """The graph; stage corpus reads the file `data`."""
    package = "tests.pipeline.steps"
    return (
        StageSpec(
            "corpus",
            f"{package}.corpus",
            "corpus.sh",
            ("seed",),
            lambda _: (),
            lambda _: [InputFile("data", str(data))],
        ),
        StageSpec(
            "grpo",
            f"{package}.grpo",
            "grpo.sh",
            ("seed", "grpo"),
            lambda _: ("corpus",),
            lambda _: [],
            torchrun=torchrun,
        ),
        StageSpec("evals", f"{package}.evals", "evals.sh", ("seed", "evals"), lambda _: ("grpo",), lambda _: []),
    )


def plan_in(
    path: Path, data: Path, *overrides: str, torchrun: bool = False
) -> tuple[RunDir, Profile, list[PlannedStage]]:
    """The run directory, the profile `tiny` with `overrides`, and its plan over the small graph."""
    run_dir, profile = RunDir(path), load_profile("tiny", overrides)
    return run_dir, profile, make_plan(profile, run_dir, specs(data, torchrun))
