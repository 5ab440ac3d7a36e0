"""Says in one line why a stage ended badly, from its exit code and its log."""

import re
import signal

from stage import EXIT_REQUEUE, EXIT_USAGE

_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Died|Timeout)\b.*)$"
)
_TORCHRUN = ("ChildFailedError", "SignalException")  # torchrun's own, about a worker that has said why itself


def explain(exit_code: int, log: str) -> tuple[int, str]:
    """(the stage's own exit code, the line that says why). `log` is what this attempt printed.

    torchrun ends with 1 whatever its workers' exit code was; their own words tell bad input and preemption apart.
    """
    lines = log.splitlines()
    if any(text.endswith("preempted, will resume") for text in lines):
        return EXIT_REQUEUE, "preempted; start it again to resume"
    said = [text.removeprefix("error: ") for text in lines if text.startswith("error: ")]
    if said:
        return EXIT_USAGE if exit_code in (1, EXIT_USAGE) else exit_code, said[-1]
    raised = [m.group(1) for text in lines if (m := _EXCEPTION.match(text)) and not any(t in text for t in _TORCHRUN)]
    if raised:
        return exit_code, raised[-1].strip()
    if exit_code < 0:
        return 128 - exit_code, f"killed by {signal.Signals(-exit_code).name}"
    return exit_code, next((text.strip() for text in reversed(lines) if text.strip()), "it printed nothing")
