"""Replays published tool-integrated solutions: do their programs print here what they printed there?

    python -m evals.replay solutions.jsonl [--limit 100] [--list 20]

In: a JSONL file of records with `question`, `gold`, `trajectory` (prose, ```python and ```output blocks) and
`prediction`, as made from the outputs that ToRA published. Out: a table of outputs, predictions and verdicts against
the recorded ones, and every record that differs with the reason.
Outputs are compared as ToRA showed them: the last line printed, else the last line of the traceback.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.extraction import MARKS
from evals.sandbox.execution import Execution, Limits
from evals.tools import OUTPUT, Trajectory, programs, session, shown, tool_answer
from stage import UsageError, outcome, parser

FIELDS = ("gold", "trajectory", "prediction")
_OUTPUT = re.compile(rf"^{OUTPUT}\n(.*?)\n?^```", re.DOTALL | re.MULTILINE)
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Timeout)\b")
SAME, SAME_VALUE = "same", "same value, written differently"
NUMERIC = 10  # decimals beyond which two printed floats may differ


@dataclass(frozen=True)
class Replayed:
    """One record after its programs ran again."""

    number: int  # of the line, from 1
    record: dict[str, Any]
    executions: list[Execution]
    outputs: list[str]  # how each output compares
    prediction: str | None
    prediction_compares: str
    right: bool
    recorded_right: bool


def read(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The records of the file, the first `limit`; a UsageError names the line that is none."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    records: list[dict[str, Any]] = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if limit is not None and len(records) == limit:
                break
            try:
                record = json.loads(line)
                missing = [name for name in FIELDS if not isinstance(record.get(name), str)]
            except (json.JSONDecodeError, AttributeError):
                raise UsageError(f"{path}:{number}: not a JSON object") from None
            if missing:
                raise UsageError(f"{path}:{number}: no text in {', '.join(missing)}")
            records.append(record)
    return records


def replay(records: Sequence[dict[str, Any]], sandbox: Any) -> Iterator[Replayed]:
    """Run all programs of all records, then compare record by record."""
    blocks = [programs(record["trajectory"]) for record in records]
    codes = [session(of[: i + 1]) for of in blocks for i in range(len(of))]
    executions = iter(sandbox.run_many(codes))
    for number, (record, of) in enumerate(zip(records, blocks, strict=True), 1):
        yield _compared(number, record, [next(executions) for _ in of])


def _compared(number: int, record: dict[str, Any], executions: list[Execution]) -> Replayed:
    from evals.equivalence import is_correct

    recorded = _OUTPUT.findall(record["trajectory"])
    recorded += [None] * (len(executions) - len(recorded))
    outputs = [compare_outputs(e, r) for e, r in zip(executions, recorded, strict=False)]
    trajectory = Trajectory("", record["trajectory"], executions=executions)
    prediction = tool_answer(trajectory, (*MARKS, "number"))
    return Replayed(
        number,
        record,
        executions,
        outputs,
        prediction,
        compare_predictions(prediction, record["prediction"]),
        is_correct(record["gold"], prediction),
        is_correct(record["gold"], record["prediction"]),
    )


def compare_outputs(execution: Execution, recorded: str | None) -> str:
    """`same`, or how the output differs from the recorded one, in a few words."""
    if recorded is None:
        return "no output recorded"
    lines = execution.stdout.strip().splitlines()
    own = shown(Execution(lines[-1] if lines and not execution.error else "", execution.error, execution.status, 0.0))
    recorded = recorded.strip()
    failed = bool(_ERROR.match(recorded))
    if own == recorded:
        return SAME
    if execution.status == "timeout" and "imeout" in recorded:
        return "timed out both times, worded differently"
    if execution.error and failed:
        return "failed both times, another message"
    if execution.error or failed:
        return f"{'fails' if execution.error else 'runs'} here, {'failed' if failed else 'ran'} there"
    return SAME_VALUE if _close(own, recorded) else "another value"


def compare_predictions(own: str | None, recorded: str) -> str:
    """`same`, or how the prediction differs from the recorded one."""
    from evals.equivalence import is_correct
    from evals.normal_form import normalize

    if own is None:
        return "none found here"
    if normalize(own) == normalize(recorded):
        return SAME
    return SAME_VALUE if is_correct(recorded, own) else "another answer"


def _close(a: str, b: str) -> bool:
    try:
        return round(float(a), NUMERIC) == round(float(b), NUMERIC)
    except ValueError:
        return False


def report(results: Sequence[Replayed], listed: int) -> str:
    """The tables, and the records that differ."""
    outputs = Counter(o for r in results for o in r.outputs)
    predictions = Counter(r.prediction_compares for r in results)
    statuses: Counter[str] = Counter(e.status for r in results for e in r.executions)
    right, recorded = sum(r.right for r in results), sum(r.recorded_right for r in results)
    lines = [f"{len(results)} solutions, {sum(outputs.values())} programs: {_counts(statuses)}", ""]
    for title, counts in (("output", outputs), ("prediction", predictions)):
        lines += [f"{title:<50}    n       %", *(_row(k, n, sum(counts.values())) for k, n in counts.most_common()), ""]
    lines += [
        f"{'verdict':<50}    n       %",
        _row("right, predictions found here", right, len(results)),
        _row("right, predictions recorded", recorded, len(results)),
        _row("judged alike", sum(r.right == r.recorded_right for r in results), len(results)),
    ]
    differing = [r for r in results if _reason(r)]
    lines += ["", f"{len(differing)} differ:"] if differing else []
    lines += [f"  line {r.number}: {_reason(r)}" for r in differing[:listed]]
    lines += [f"  and {len(differing) - listed} more (--list)"] if len(differing) > listed else []
    return "\n".join(lines)


def _row(name: str, n: int, of: int) -> str:
    return f"{name:<50} {n:>4}  {100 * n / max(of, 1):>6.2f}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counter.most_common())


def _reason(result: Replayed) -> str:
    """What differs in a record, with both sides; empty when nothing does but the way a number is written."""
    record = result.record
    parts = []
    recorded = [*_OUTPUT.findall(record["trajectory"]), *[None] * len(result.executions)]
    for how, execution, there in zip(result.outputs, result.executions, recorded, strict=False):
        if how != SAME:
            parts.append(f"output: {how} (here {shown(execution)!r}, there {there!r})")
    if result.prediction_compares not in (SAME, SAME_VALUE):
        own, there = result.prediction, record["prediction"][:60]
        parts.append(f"prediction: {result.prediction_compares} (here {own!r}, there {there!r})")
    if result.right != result.recorded_right:
        parts.append(f"verdict: {'right' if result.right else 'wrong'} here, gold {record['gold']!r}")
    return "; ".join(parts)


def main(argv: list[str] | None = None) -> int:
    """Replay a file and print the report."""
    options = parser(__doc__)
    options.add_argument("file", type=Path, help="JSONL of published solutions")
    options.add_argument("--limit", type=int, help="only the first so many records")
    options.add_argument("--list", type=int, default=20, help="differing records to print (%(default)s)")
    args = options.parse_args(argv)
    return outcome(lambda: _replay(args.file, args.limit, args.list))


def _replay(file: Path, limit: int | None, listed: int) -> int:
    from evals.sandbox import Sandbox, SandboxFailed

    records = read(file, limit)
    try:
        with Sandbox(Limits()) as sandbox:
            print(f"sandbox: {'; '.join(sandbox.strength())}")
            print(report(list(replay(records, sandbox)), listed))
    except SandboxFailed as error:
        raise UsageError(str(error)) from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
