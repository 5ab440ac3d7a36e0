"""Where stages run: `local` starts them one after another here, `slurm` submits them as a chain of jobs."""

from typing import Protocol

from pipeline.plan import PlannedStage


class Executor(Protocol):
    """Runs stages in order and returns the exit code: 0, or that of the first stage that did not publish."""

    def run(self, stages: list[PlannedStage]) -> int: ...
