"""Stage `evals`: measure every checkpoint of the run on every benchmark, and write the report.

In: hf/ of the stages named in evals.checkpoints. Out: report.md, report.json, report.html and
samples/<checkpoint>/<benchmark>.jsonl with every completion.
One SGLang server answers for all checkpoints; it takes over each one's weights in turn. A run that was killed goes on
with the samples it has.

The other commands need no run: --list, --samples and --rescore no model either (evals/commands.py), --checkpoint and
--endpoint measure one model (evals/measure.py).
"""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals import commands, measure
from evals.config import EvalsConfig
from evals.server_config import ServerConfig
from stage import Stage, UsageError, outcome, parser, run_stage


def body(stage: Stage) -> None:
    """Ask what has not been asked yet, score, report."""
    from evals.benchmarks.loader import load

    config = stage.section("evals", EvalsConfig)
    checkpoints: dict[str, Path] = {name: stage.input(name) / "hf" for name in config.checkpoints}
    benchmarks = [load(run, stage.profile["seed"], stage.drop) for run in config.benchmarks]
    with ExitStack() as running:
        sandbox, strength = make_sandbox_for(config, running)
        stage.metrics |= strength
        models = Models(stage, checkpoints, running)
        for name in checkpoints:
            few_shot = name in config.few_shot_checkpoints
            for benchmark, run in zip(benchmarks, config.benchmarks, strict=True):
                _measure(name, benchmark, run, few_shot and run.few_shot, models.use, config, stage, sandbox)
    _report(stage, config, checkpoints, {b.name: b.title for b in benchmarks})


@dataclass
class Models:
    """The checkpoints behind one server, which starts when the first of them is asked something."""

    stage: Stage
    checkpoints: dict[str, Path]
    running: ExitStack
    server: Any = None
    current: Any = None

    def use(self, name: str) -> Any:
        """The model `name`, loaded into the server."""
        from transformers import AutoTokenizer

        from evals.server import SGLangServer
        from evals.writers import Model

        if self.current is None or self.current.name != name:
            path, config = self.checkpoints[name], self.stage.section("server", ServerConfig)
            if self.server is None:
                log = self.stage.run_dir / "logs" / "evals-server.log"
                server = SGLangServer(path, config, log, seed=self.stage.profile["seed"])
                self.server = self.running.enter_context(server)
            tokenizer = AutoTokenizer.from_pretrained(path)
            self.current = Model(self.server, name, path, tokenizer, context_length(path, config))
            self.current.load()
        return self.current


def context_length(checkpoint: Path, config: ServerConfig) -> int:
    """Tokens of prompt and answer that the model, or the server when it allows less, can hold."""
    try:
        longest = int(json.loads((checkpoint / "config.json").read_text())["max_position_embeddings"])
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(f"{checkpoint}/config.json: no max_position_embeddings ({error!r})") from None
    return min(longest, config.context_length or longest)


def make_sandbox_for(config: EvalsConfig, running: ExitStack) -> tuple[Any, dict[str, Any]]:
    """The sandbox for the models' programs where a benchmark has any, and what it keeps out; else None."""
    from evals.sandbox import SandboxFailed
    from evals.tool_mode import make_sandbox

    if all(run.mode == "cot" for run in config.benchmarks):
        return None, {}
    sandbox: Any = make_sandbox(config.sandbox)
    try:
        running.enter_context(sandbox)
    except SandboxFailed as error:
        raise UsageError(str(error)) from None
    return sandbox, {"sandbox": {"strength": sandbox.strength()}}


def _measure(
    name: str,
    benchmark: Any,
    run: Any,
    few_shot: bool,
    model: Callable[[str], Any],
    config: EvalsConfig,
    stage: Stage,
    sandbox: Any,
) -> None:
    """Ask the checkpoint `name` whatever its samples file lacks."""
    from evals.sampling import SampleFile, ask, missing, samples_path

    file = SampleFile(samples_path(stage.work, name, benchmark.name))
    for job in missing(benchmark, run, file, few_shot):
        ask(job, model(name), file, config, stage, sandbox)


def _report(stage: Stage, config: EvalsConfig, checkpoints: dict[str, Path], titles: dict[str, str]) -> None:
    """Score all samples, write the report, fill the manifest."""
    from evals.equivalence import judge_failures
    from evals.report import Rollouts, gather, read_rollouts, write_report
    from evals.sampling import read_samples, samples_path
    from evals.scoring import Intervals
    from evals.tool_mode import count_executions

    samples = {b: {c: read_samples(samples_path(stage.work, c, b)) for c in checkpoints} for b in titles}
    run = {
        "name": stage.run_dir.resolve().name,
        "profile": str(stage.profile["name"]),
        "code_version": stage.code_version,
    }
    intervals = Intervals(config.confidence, config.bootstrap_draws, stage.profile["seed"])
    rollouts = Rollouts([])
    if "grpo" in checkpoints:
        rollouts = read_rollouts(checkpoints["grpo"].parent / "samples.jsonl", config.report_rollouts)
    _count(stage, samples)
    cost = {"wall_seconds": stage.wall_seconds, "metrics": stage.metrics, "counts": stage.counts}
    report = gather(stage.run_dir, run, titles, checkpoints, samples, intervals, rollouts.tokens, cost)
    write_report(stage.work, report, samples, config.report_samples, rollouts)
    for benchmark in titles:
        for checkpoint in reversed(checkpoints):
            accuracy = report["results"][benchmark][checkpoint]["metrics"].get("accuracy")
            if accuracy:
                stage.metrics[f"{benchmark} {checkpoint}"] = accuracy["value"]
    stage.metrics["results"] = {b: {c: r["metrics"] for c, r in of.items()} for b, of in report["results"].items()}
    stage.metrics["comparisons"] = report["comparisons"]
    if "sandbox" in stage.metrics:
        lines = [line for of in samples.values() for checkpoint in of.values() for line in checkpoint]
        stage.metrics["sandbox"]["executions"] = count_executions(lines)
    stage.metrics["checks_without_verdict"] = dict(judge_failures())


def _count(stage: Stage, samples: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Counts: in are the questions asked (problem, mode, checkpoint), out those with answers, dropped by reason."""
    stage.metrics["tokens"] = 0
    for benchmark, of in samples.items():
        for checkpoint, lines in of.items():
            stage.counts["in"] += len(lines)
            stage.counts["out"] += sum(not line["skipped"] for line in lines)
            stage.metrics["tokens"] += sum(c["tokens"] for line in lines for c in line["completions"])
            for line in lines:
                if line["skipped"]:
                    stage.drop(f"{checkpoint}, {benchmark}: {line['skipped']}")


def main(argv: list[str] | None = None) -> int:
    """Run the stage, or one of the commands that need no run directory."""
    options = parser(__doc__)
    options.add_argument("--run-dir", type=Path, help="run directory holding profile.yaml and plan.json: run the stage")
    commands.add_arguments(options)
    measure.add_arguments(options)
    args = options.parse_args(argv)
    if command := commands.command(args):
        return outcome(command)
    if args.run_dir is None:
        options.error("give --run-dir, or one of --list, --samples, --rescore, --checkpoint, --endpoint")
    return run_stage("evals", body, args.run_dir)


if __name__ == "__main__":
    sys.exit(main())
