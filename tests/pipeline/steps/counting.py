"""Three small, real stages for the executors' tests: they count, keep a checkpoint of the count, and publish it.

Environment: STEPS, STEP_SECONDS, FAIL_AT (raise at this count), BAD_INPUT_AT (UsageError), PREEMPT (stop at a signal).
"""

import os
import time

from stage import Stage, UsageError, atomic_write
from stage.context import Preempted


def count(stage: Stage) -> None:
    """Count to STEPS from the checkpoint of an earlier attempt, and add what the input stages counted."""
    if stage.rank != 0:
        return
    checkpoint = stage.work / "resume" / "count"
    begin = int(checkpoint.read_text()) if checkpoint.is_file() else 0
    steps, pause = int(os.environ.get("STEPS", "3")), float(os.environ.get("STEP_SECONDS", "0"))
    print(f"begin at {begin}", flush=True)
    with stage.progress("counting", steps, "steps", start=begin) as progress:
        for n in range(begin, steps):
            if n == int(os.environ.get("FAIL_AT", "-1")):
                raise RuntimeError(f"the count broke at {n}")
            if n == int(os.environ.get("BAD_INPUT_AT", "-1")):
                raise UsageError(f"numbers.txt: record {n}: expected a number, got 'x'")
            time.sleep(pause)
            atomic_write(checkpoint, str(n + 1))
            if stage.preempted:
                raise Preempted
            progress.update(1, count=n + 1)
    inputs = [int((stage.input(name) / "total").read_text()) for name in stage.plan["inputs"]]
    (stage.work / "total").write_text(str(steps + sum(inputs)))
    stage.metrics |= {"total": steps + sum(inputs), "resumed_at": begin}
