"""Asks a model every question and keeps each answer, so that a killed run never asks twice.

In: a Benchmark, a checkpoint behind a running SGLang server. Out: samples/<checkpoint>/<benchmark>.jsonl, one line for
the greedy answer and one for the K sampled answers of each problem, appended batch by batch and flushed.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evals.benchmarks.loader import Benchmark
from evals.benchmarks.records import Problem
from evals.client import Completion, ServerDied
from evals.config import BenchmarkRun, EvalsConfig
from evals.prompts import Prompt, cut_at_stop
from evals.sandbox import RemoteSandbox, Sandbox
from evals.server import SGLangServer
from evals.tool_mode import complete, judged
from stage import Preempted, Stage, UsageError

Mode = Literal["greedy", "sampled"]
TRIES = 3  # of a batch whose server dies


@dataclass
class Model:
    """The checkpoint that `server` answers with, and its tokenizer. `load` switches to another one."""

    server: SGLangServer
    name: str
    path: Path
    tokenizer: Any
    context: int  # tokens of prompt and answer together

    def load(self) -> None:
        """Give the server this checkpoint's weights; its answers carry the checkpoint's name from here on."""
        self.server.client().update_weights(str(self.path), self.name)

    def generate(self, prompts: list[list[int]], sampling: dict[str, Any], n: int) -> list[list[Completion]]:
        """`n` completions of each prompt; a server that dies is started again, with these weights."""
        for attempt in range(TRIES):
            try:
                if attempt:
                    self.server.restart()
                    self.load()
                groups = self.server.client().generate(prompts, sampling, n)
                break
            except ServerDied:
                if attempt == TRIES - 1:
                    raise
        versions = {c.weight_version for group in groups for c in group}
        if any(c.finish_reason == "abort" for group in groups for c in group):
            raise RuntimeError("the server aborted requests; nothing of this batch is kept")
        if versions != {self.name}:
            raise RuntimeError(f"asked for answers of {self.name!r}, the server answered with {versions}")
        return groups


class SampleFile:
    """The samples of one checkpoint on one benchmark. Opening it drops a last line that a killed run left torn."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_torn_line(path)

    def lines(self) -> list[dict[str, Any]]:
        """Every line, oldest first."""
        return list(read_samples(self.path))

    def done(self, samples: int) -> set[tuple[str, str]]:
        """What need not be asked again: (problem id, mode), with as many completions as are wanted."""
        wanted = {"greedy": 1, "sampled": samples}
        lines = self.lines()
        return {(s["id"], s["mode"]) for s in lines if s["skipped"] or len(s["completions"]) >= wanted[s["mode"]]}

    def append(self, lines: Iterable[dict[str, Any]]) -> None:
        """Add lines; they are on disk when this returns."""
        with open(self.path, "a", encoding="utf-8") as f:
            f.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            f.flush()
            os.fsync(f.fileno())


def samples_path(folder: Path, checkpoint: str, benchmark: str) -> Path:
    """Where the samples of a checkpoint on a benchmark are."""
    return folder / "samples" / checkpoint / f"{benchmark}.jsonl"


def drop_torn_line(path: Path) -> None:
    """Cut the file after its last newline."""
    if not path.exists():
        return
    with open(path, "rb+") as f:
        data = f.read()
        f.truncate(data.rfind(b"\n") + 1)


def read_samples(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a samples file; a damaged one is a UsageError that names it."""
    if not path.exists():
        return
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                sample = json.loads(line)
                sample["id"], sample["mode"], sample["gold"], sample["completions"], sample["skipped"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise UsageError(f"{path}:{number}: not a sample ({error!r}); delete the file to ask again") from None
            yield sample


@dataclass(frozen=True)
class Job:
    """What is still to ask: these problems of a benchmark in one mode."""

    benchmark: Benchmark
    run: BenchmarkRun
    mode: Mode
    problems: list[Problem]
    few_shot: bool

    @property
    def completions(self) -> int:
        """Completions of each problem."""
        return 1 if self.mode == "greedy" else self.run.num_samples


def missing(benchmark: Benchmark, run: BenchmarkRun, file: SampleFile, few_shot: bool) -> list[Job]:
    """The greedy and the sampled job, without what the file holds already; none when it holds all."""
    done = file.done(run.num_samples)
    modes: tuple[Mode, ...] = ("greedy", "sampled") if run.num_samples else ("greedy",)
    left = {mode: [p for p in benchmark.problems if (p.id, mode) not in done] for mode in modes}
    return [Job(benchmark, run, mode, problems, few_shot) for mode, problems in left.items() if problems]


def ask(
    job: Job,
    model: Model,
    file: SampleFile,
    config: EvalsConfig,
    stage: Stage,
    sandbox: Sandbox | RemoteSandbox | None = None,
) -> None:
    """Do the job in batches, appending each to the file. Raises Preempted between two batches when asked to stop.

    The modes pot and tool need the sandbox.
    """
    label = f"{model.name}, {job.benchmark.title}, {job.mode}"
    size = max(1, config.batch_size // job.completions)
    right = 0
    with stage.progress(label, len(job.problems) * job.completions, "answers") as progress:
        for start in range(0, len(job.problems), size):
            if stage.preempted:
                raise Preempted(stage.name)
            batch = job.problems[start : start + size]
            lines = _answers(job, model, batch, config, sandbox)
            file.append(lines)
            right += sum(c["correct"] for line in lines for c in line["completions"])
            asked = min(start + size, len(job.problems)) * job.completions
            progress.update(len(batch) * job.completions, right=f"{right} of {asked}")


def _answers(
    job: Job, model: Model, batch: list[Problem], config: EvalsConfig, sandbox: Sandbox | RemoteSandbox | None
) -> list[dict[str, Any]]:
    prompts = [job.benchmark.prompt(p, job.few_shot) for p in batch]
    ids = [model.tokenizer.encode(p.text, add_special_tokens=False) for p in prompts]
    # SGLang refuses, and with it the batch, what fills its context to the last token
    fits = [i for i in range(len(batch)) if len(ids[i]) + job.run.max_new_tokens < model.context]
    problems, prompts = [batch[i] for i in fits], [prompts[i] for i in fits]
    sampling = sampling_parameters(job, config, model.tokenizer.eos_token_id)
    if job.run.mode == "cot":
        answers = _texts(job, model, problems, prompts, [ids[i] for i in fits], sampling)
    else:
        assert sandbox is not None
        made = complete(model, sandbox, job.run, prompts, sampling, job.completions)
        answers = [[judged(job.benchmark, p, t) for t in ts] for p, ts in zip(problems, made, strict=True)]
    groups = dict(zip(fits, answers, strict=True))
    skipped = f"prompt and answer exceed the context of {model.context} tokens"
    return [
        _line(job, problem, groups.get(i, []), len(ids[i]), None if i in groups else skipped)
        for i, problem in enumerate(batch)
    ]


def _texts(
    job: Job,
    model: Model,
    problems: list[Problem],
    prompts: list[Prompt],
    ids: list[list[int]],
    sampling: dict[str, Any],
) -> list[list[dict[str, Any]]]:
    """The completions of each problem in prose."""
    stop = sorted({s for p in prompts for s in p.stop})
    groups = model.generate(ids, {**sampling, "stop": stop}, job.completions) if ids else []
    return [
        [_judged(job.benchmark, problem, c, model, prompt.stop) for c in group]
        for problem, prompt, group in zip(problems, prompts, groups, strict=True)
    ]


def sampling_parameters(job: Job, config: EvalsConfig, eos: int) -> dict[str, Any]:
    """SGLang's sampling parameters of a job; the prompts add their stop strings."""
    greedy = {"temperature": 0.0}
    parameters = greedy if job.mode == "greedy" else {"temperature": config.temperature, "top_p": config.top_p}
    return {**parameters, "max_new_tokens": job.run.max_new_tokens, "stop_token_ids": [eos]}


def _judged(
    benchmark: Benchmark, problem: Problem, completion: Completion, model: Model, stop: tuple[str, ...]
) -> dict[str, Any]:
    text = cut_at_stop(model.tokenizer.decode(completion.output_ids, skip_special_tokens=True), stop)
    answer, correct = benchmark.judge(problem.gold, text)
    return {
        "text": text,
        "answer": answer,
        "correct": correct,
        "finish_reason": completion.finish_reason,
        "tokens": len(completion.output_ids),
    }


def _line(
    job: Job, problem: Problem, completions: list[dict[str, Any]], prompt_tokens: int, skipped: str | None
) -> dict[str, Any]:
    return {
        "id": problem.id,
        "mode": job.mode,
        "level": problem.level,
        "subject": problem.subject,
        "question": problem.question,
        "gold": problem.gold,
        "prompt_tokens": prompt_tokens,
        "skipped": skipped,
        "completions": completions,
    }
