"""Measure one model without a run: a Hugging Face checkpoint, or a model behind an OpenAI-compatible endpoint.

    python -m evals.run --checkpoint DIR --benchmark gsm8k --benchmark math --output out
    python -m evals.run --endpoint http://host/v1 --model NAME --benchmark gsm8k --output out

Writes out/samples/<model>/<benchmark>.jsonl and the report. The same command goes on where a killed one stopped, and
asks again for what an endpoint failed to answer.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.config import BenchmarkRun, EvalsConfig
from evals.server_config import ServerConfig
from stage import Progress, UsageError, atomic_write

if TYPE_CHECKING:
    from evals.writers import Writer


@dataclass
class Command:
    """Whose work the asking is: this command's, which SIGINT ends."""

    name: str = "evals"
    preempted: bool = False
    dropped: Counter[str] = field(default_factory=Counter)

    def progress(self, description: str, total: int | None, unit: str) -> Progress:
        """A progress display."""
        return Progress(description, total, unit)

    def drop(self, reason: str) -> None:
        """Count what was left out."""
        self.dropped[reason] += 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    group = parser.add_argument_group("measure one model")
    group.add_argument("--checkpoint", type=Path, metavar="DIR", help="a Hugging Face checkpoint, served by SGLang")
    group.add_argument("--device", choices=("cpu", "cuda"), default="cuda", help="where SGLang runs; default: cuda")
    group.add_argument("--endpoint", metavar="URL", help="an OpenAI-compatible server, up to and including /v1")
    group.add_argument("--model", help="the model's name at the endpoint")
    group.add_argument("--api", choices=("chat", "completions"), default="chat", help="of the endpoint; default: chat")
    group.add_argument("--api-key-env", default="OPENAI_API_KEY", help="variable with the key; default: OPENAI_API_KEY")
    group.add_argument("--concurrency", type=_positive, default=16, help="requests at once; default: 16")
    group.add_argument("--requests-per-minute", type=_rate, help="at most so many; default: no limit")
    group.add_argument("--data", metavar="FILE", help="a JSONL in place of the benchmark's data set")
    group.add_argument("--limit", type=_positive, help="the first problems only")
    group.add_argument(
        "--num-samples", type=_not_negative, default=0, help="K of Maj@K and Pass@K; default: greedy only"
    )
    group.add_argument("--temperature", type=float, default=0.7, help="of the samples; default: 0.7")
    group.add_argument("--max-new-tokens", type=_positive, default=1024, help="of an answer; default: 1024")
    group.add_argument(
        "--mode", choices=("cot", "pot", "tool"), default="cot", help="prose, programs, or prose with tools"
    )
    group.add_argument("--few-shot", action="store_true", help="worked examples, for base models")


def measure(args: argparse.Namespace) -> int:
    """Ask, judge, report; 0 when every problem was answered, 1 when an endpoint left some."""
    from evals.benchmarks.loader import load
    from evals.run import make_sandbox_for
    from evals.sampling import SampleFile, ask, missing, read_samples, samples_path

    config, name = _config(args), _name(args)
    host, skipped = Command(), Counter[str]()
    benchmarks = [load(run, 0, lambda reason: skipped.update([reason])) for run in config.benchmarks]
    _print("left out, not scored", skipped)
    with ExitStack() as running:
        sandbox, _ = make_sandbox_for(config, running)
        jobs = []
        for benchmark, run in zip(benchmarks, config.benchmarks, strict=True):
            file = SampleFile(samples_path(args.output, name, benchmark.name))
            _same_settings(file.path.with_suffix(".settings.json"), run, args)
            jobs += [(job, file) for job in missing(benchmark, run, file, args.few_shot)]
        writer = _writer(args, name, running) if jobs else None
        try:
            for job, file in jobs:
                assert writer is not None
                ask(job, writer, file, config, host, sandbox)
        except KeyboardInterrupt:
            print("the same command goes on with the answers it has", file=sys.stderr)
            raise
    _print("not answered, asked again by the same command", host.dropped)
    samples = {b.name: {name: read_samples(samples_path(args.output, name, b.name))} for b in benchmarks}
    if not any(lines for of in samples.values() for lines in of.values()):
        raise UsageError(f"{args.endpoint}: no request was answered ({'; '.join(host.dropped)})")
    from evals.commands import print_figures, write

    print_figures(samples)
    write(args.output, {b.name: b.title for b in benchmarks}, samples, args.output)
    return 1 if host.dropped else 0


def _config(args: argparse.Namespace) -> EvalsConfig:
    from pydantic import ValidationError

    if not args.benchmark or args.output is None:
        raise UsageError("--checkpoint and --endpoint need --benchmark and --output")
    if args.endpoint and not re.match(r"https?://[^/\s]+", args.endpoint):
        raise UsageError(f"--endpoint {args.endpoint}: expected http://host:port/v1")
    if args.data and len(args.benchmark) > 1:
        raise UsageError("--data is the file of one benchmark; measure the others by a command of their own")
    if args.mode != "cot" and args.endpoint and args.api == "chat":
        raise UsageError(f"--mode {args.mode} continues its own text: it needs --api completions")
    run: dict[str, Any] = {"path": args.data, "limit": args.limit, "num_samples": args.num_samples, "mode": args.mode}
    run |= {"max_new_tokens": args.max_new_tokens, "few_shot": args.few_shot}
    try:
        runs = [BenchmarkRun(name=name, **run) for name in args.benchmark]
        return EvalsConfig(benchmarks=runs, temperature=args.temperature)
    except ValidationError as error:
        first = error.errors()[0]
        option = f"--{first['loc'][0]}".replace("_", "-") if first["loc"] else "--benchmark"
        raise UsageError(f"{option}: {first['msg'].removeprefix('Value error, ')}") from None


def _name(args: argparse.Namespace) -> str:
    """The model's name in files and report."""
    if args.endpoint and not args.model:
        raise UsageError("--endpoint needs --model: the model's name at the endpoint")
    folder = args.checkpoint.resolve() if args.checkpoint else Path()
    own = folder.parent.name if folder.name == "hf" else folder.name  # a stage's checkpoint is <stage>/hf
    return re.sub(r"[^\w.-]+", "-", args.model or own)


def _same_settings(file: Path, run: BenchmarkRun, args: argparse.Namespace) -> None:
    """Keep how a samples file was asked for beside it; UsageError when it was asked for otherwise before."""
    asked = {"data": run.path, "max_new_tokens": run.max_new_tokens, "few_shot": run.few_shot, "api": args.api}
    asked |= {"temperature": args.temperature} if run.num_samples else {}
    before = json.loads(file.read_text()) if file.is_file() else {}
    if other := [key for key in asked.keys() & before.keys() if asked[key] != before[key]]:
        what = ", ".join(f"{key} {before[key]}" for key in sorted(other))
        raise UsageError(f"{file.parent}: its answers were asked for with {what}; choose another --output")
    atomic_write(file, json.dumps(before | asked, indent=2) + "\n")


def _key(variable: str) -> str | None:
    """The API key in an environment variable. What is wrong with one is said without showing it."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError(f"{variable}: no API key, it holds blanks or signs that no HTTP header can carry")
    return key or None


def _writer(args: argparse.Namespace, name: str, running: ExitStack) -> "Writer":
    if args.endpoint:
        from evals.endpoint import Endpoint

        key, limit = _key(args.api_key_env), args.requests_per_minute
        return Endpoint(args.endpoint, args.model, args.api, key, args.concurrency, limit)
    from transformers import AutoTokenizer

    from evals.run import context_length
    from evals.server import SGLangServer
    from evals.writers import Model

    server = ServerConfig(device=args.device, dtype="float32" if args.device == "cpu" else "bfloat16")
    context = context_length(args.checkpoint, server)
    running_server = running.enter_context(SGLangServer(args.checkpoint, server, args.output / "server.log", seed=0))
    model = Model(running_server, name, args.checkpoint, AutoTokenizer.from_pretrained(args.checkpoint), context)
    model.load()
    return model


def _print(what: str, reasons: Counter[str]) -> None:
    for reason, n in reasons.items():
        print(f"{what}: {n}, {reason}", file=sys.stderr)


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def _rate(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return float(text)


def _not_negative(text: str) -> int:
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return int(text)
