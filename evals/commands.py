"""What `python -m evals.run` does besides being a stage: list benchmarks, score texts that exist, score samples again.

    python -m evals.run --list
    python -m evals.run --samples FILE --benchmark gsm8k [--text-key trajectory] [--recorded-key prediction]
    python -m evals.run --rescore runs/tiny

No model runs here. `--samples` takes a JSONL of anyone's outputs with their gold answers; `--rescore` the samples that
this program wrote. Both can leave a report (--output).
"""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evals.config import BENCHMARKS, BenchmarkRun
from evals.measure import measure
from stage import Progress, UsageError, atomic_write, read_jsonl

TEXT_KEYS = ("trajectory", "text", "output", "outputs", "completion", "completions", "response", "generation")
GOLD_KEYS = ("gold", "answer", "gt", "target")
SHOWN = 20  # differences printed; the files hold all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of these commands."""
    parser.add_argument("--list", action="store_true", help="name the benchmarks with their data, prompts and metric")
    parser.add_argument("--samples", type=Path, metavar="FILE", help="score the outputs of a JSONL file")
    parser.add_argument("--rescore", type=Path, metavar="DIR", help="judge the samples of a run or output folder again")
    parser.add_argument("--benchmark", action="append", help="whose problems to ask, or whose rules to score by")
    parser.add_argument("--text-key", help=f"for --samples: the outputs' field; default: the first of {TEXT_KEYS}")
    parser.add_argument("--gold-key", help=f"for --samples: the gold answers' field; default: the first of {GOLD_KEYS}")
    parser.add_argument("--recorded-key", help="for --samples: a field with another program's answer or verdict")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write samples and report")


def command(args: argparse.Namespace) -> Callable[[], int] | None:
    """The command that `args` name; None when they name none."""
    if args.list:
        return list_benchmarks
    if args.samples:
        return lambda: score_file(args)
    if args.rescore:
        return lambda: rescore(args)
    if args.checkpoint or args.endpoint:
        return lambda: measure(args)
    return None


def list_benchmarks() -> int:
    """A line a benchmark."""
    import yaml

    rows = [("name", "title", "language", "data", "few-shot", "answer", "metric")]
    for path in sorted(BENCHMARKS.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
        data, shots = spec["data"], spec.get("few_shot")
        source = data.get("dataset") or data.get("path") or f"generator {data['generator']}"
        examples = len(yaml.safe_load((path.parent / shots).read_text(encoding="utf-8"))["examples"]) if shots else 0
        found = ", ".join(spec["extraction"])
        rows.append((path.stem, spec["title"], spec["language"], source, str(examples), found, spec["metric"]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def score_file(args: argparse.Namespace) -> int:
    """Judge the outputs in args.samples by the rules of args.benchmark and print the figures."""
    from evals.benchmarks.loader import rules

    if len(args.benchmark or ()) != 1:
        raise UsageError("--samples needs one --benchmark: whose rules of extraction and equality to use")
    benchmark = rules(BenchmarkRun.of_key(args.benchmark[0]))
    dropped: Counter[str] = Counter()
    found: dict[tuple[str, str], dict[str, Any]] = {}
    records = list(read_jsonl(args.samples))
    with Progress("score", len(records), "problems") as progress:
        for number, record in enumerate(records, start=1):
            line = _line(record, number, benchmark, args)
            if isinstance(line, str):
                dropped[line] += 1
            else:
                _add(line, found)
            progress.update()
    lines = list(found.values())
    ids = Counter(line["id"] for line in lines)
    for line in lines:  # one id for several problems: the gold answer tells them apart
        line["id"] += f" ({line['gold']})" if ids[line["id"]] > 1 else ""
    if not lines:
        raise UsageError(f"{args.samples}: no record can be scored ({'; '.join(dropped)})")
    _print_dropped(dropped)
    if args.recorded_key:
        _print_differences(lines, benchmark)
    print_figures({benchmark.name: {args.samples.stem: lines}})
    if args.output:
        write(args.output, {benchmark.name: benchmark.title}, {benchmark.name: {args.samples.stem: lines}}, args.output)
    return 0


def _add(line: dict[str, Any], lines: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Put a line to the others. Records with one id and one gold answer are samples of one problem."""
    same = lines.setdefault((line["id"], line["gold"]), line)
    if same is not line:
        same["completions"] += line["completions"]
        same["mode"] = "sampled"


def rescore(args: argparse.Namespace) -> int:
    """Judge every completion below args.rescore again; report and samples go to args.output (DIR/rescored)."""
    from evals.benchmarks.loader import rules
    from evals.sampling import read_samples
    from evals.tool_mode import judged_again

    folder: Path = args.rescore
    own = {run.key: run for run in map(BenchmarkRun.of_key, args.benchmark or ())}
    places = [p for p in (folder / "evals" / "samples", folder / "samples") if p.is_dir()]
    files = sorted(places[0].glob("*/*.jsonl"), key=_place) if places else []
    if not files:
        raise UsageError(f"{folder}: no samples/<checkpoint>/<benchmark>.jsonl in it, nor in its folder evals")
    samples: dict[str, dict[str, list[dict[str, Any]]]] = {}
    titles, changed, judged, dropped = {}, Counter[str](), 0, Counter[str]()
    for file in files:
        benchmark = rules(own.get(file.stem) or BenchmarkRun.of_key(file.stem))
        titles[file.stem] = benchmark.title
        lines = read_samples(file, lambda reason: dropped.update([reason]))
        samples.setdefault(file.stem, {})[file.parent.name] = lines
        for completion, gold in ((c, line["gold"]) for line in lines for c in line["completions"]):
            before = completion["correct"]
            completion["answer"], completion["correct"] = judged_again(benchmark, gold, completion)
            judged += 1
            if before != completion["correct"]:
                changed[f"{file.stem}, {file.parent.name}: now {'right' if completion['correct'] else 'wrong'}"] += 1
    _print_dropped(dropped)
    print(f"{judged} completions judged again, {sum(changed.values())} verdicts changed")
    for what, n in sorted(changed.items()):
        print(f"  {n} {what}")
    print_figures(samples)
    run_dir = next((d for d in (folder, folder.parent) if (d / "profile.yaml").is_file()), folder)
    write(args.output or folder / "rescored", titles, samples, run_dir)
    return 0


def _place(file: Path) -> tuple[int, str, str]:
    """Checkpoints in the order of the recipe, others by name."""
    from evals.report.tables import NAMES

    stage, known = file.parent.name, list(NAMES)
    return known.index(stage) if stage in known else len(known), stage, file.stem


def _line(record: dict[str, Any], number: int, benchmark: Any, args: argparse.Namespace) -> dict[str, Any] | str:
    """A record of somebody's file as a line of our samples, or why it cannot be one."""
    from evals.extraction import extract_answer

    text_key, texts = _field(record, args.text_key, TEXT_KEYS)
    gold_key, gold = _field(record, args.gold_key, GOLD_KEYS)
    if texts is None or gold is None:
        return f"no field {text_key if texts is None else gold_key}"
    found = extract_answer(str(gold), ("boxed", "hash", "plain"))
    if found is None:
        return f"no gold answer in field {gold_key}"
    texts = texts if isinstance(texts, list) else [texts]
    if not all(isinstance(t, str) for t in texts):
        return f"field {text_key} is no text"
    completions = []
    for text in texts:
        answer, correct = benchmark.judge(found, text)
        completion = {"text": text, "answer": answer, "correct": correct, "finish_reason": "stop", "tokens": 0}
        completions.append(completion | ({"recorded": record.get(args.recorded_key)} if args.recorded_key else {}))
    return {
        "id": str(record.get("id", record.get("idx", number - 1))),
        "mode": "greedy" if len(texts) == 1 else "sampled",
        "level": record.get("level"),
        "subject": record.get("subject", record.get("type")),
        "question": str(record.get("question", record.get("problem", ""))),
        "gold": found,
        "prompt_tokens": 0,
        "skipped": None,
        "completions": completions,
    }


def _field(record: dict[str, Any], wanted: str | None, known: tuple[str, ...]) -> tuple[str, Any]:
    names = (wanted,) if wanted else known
    for name in names:
        if record.get(name) not in (None, "", []):
            return repr(name), record[name]
    return " or ".join(map(repr, names)), None


def _print_dropped(dropped: Counter[str]) -> None:
    for reason, n in dropped.items():
        print(f"left out, not scored: {n}, {reason}")


def _print_differences(lines: list[dict[str, Any]], benchmark: Any) -> None:
    """Our verdicts beside the recorded ones: a recorded answer is judged against the gold, a true/false is taken."""
    same = differ = unrecorded = 0
    for gold, number, ours in ((x["gold"], x["id"], c) for x in lines for c in x["completions"]):
        recorded = ours["recorded"]
        verdict = recorded if isinstance(recorded, bool) else benchmark.same(gold, str(recorded))
        if recorded is None:
            unrecorded += 1
        elif verdict == ours["correct"]:
            same += 1
        else:
            differ += 1
            if differ <= SHOWN:
                print(f"  {number}: gold {gold!r}, recorded {recorded!r}, here {ours['answer']!r}")
    without = f"; {unrecorded} have none" if unrecorded else ""
    print(f"verdicts like the recorded ones: {same} of {same + differ}; {differ} differ{without}")


def print_figures(samples: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """A line a metric."""
    from evals.scoring import Intervals, summarize

    for benchmark, of in samples.items():
        for name, lines in of.items():
            for metric, value in summarize(lines, Intervals())["metrics"].items():
                low, high = value["interval"]
                print(f"{benchmark}, {name}: {metric} {100 * value['value']:.1f} ({100 * low:.1f} to {100 * high:.1f})")


def write(
    folder: Path, titles: dict[str, str], samples: dict[str, dict[str, list[dict[str, Any]]]], run_dir: Path
) -> None:
    """Samples and report into `folder`; training curves and rollouts where `run_dir` has them."""
    import json

    from evals.config import EvalsConfig
    from evals.report import gather, read_rollouts, write_report
    from evals.sampling import samples_path
    from evals.scoring import Intervals

    names = list(dict.fromkeys(name for of in samples.values() for name in of))
    full = {b: {name: of.get(name, []) for name in names} for b, of in samples.items()}
    for benchmark, of in samples.items():
        for name, lines in of.items():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            atomic_write(samples_path(folder, name, benchmark), text)
    run = {"name": run_dir.resolve().name, "profile": "none", "code_version": "scored again"}
    rollouts = read_rollouts(run_dir / "grpo" / "samples.jsonl", EvalsConfig().report_rollouts)
    checkpoints = {name: run_dir / name / "hf" for name in names}
    report = gather(run_dir, run, titles, checkpoints, full, Intervals(), rollouts.tokens)
    write_report(folder, report, full, EvalsConfig().report_samples, rollouts)
    print(f"report: {folder / 'report.html'}")
