"""Asks a model every question and keeps each answer, so that a killed run never asks twice.

In: a Benchmark and a Writer. Out: samples/<checkpoint>/<benchmark>.jsonl, one line for
the greedy answer and one for the K sampled answers of each problem, appended batch by batch and flushed.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from evals.benchmarks.loader import Benchmark
from evals.benchmarks.records import Problem
from evals.config import BenchmarkRun, EvalsConfig
from evals.sandbox import RemoteSandbox, Sandbox
from evals.tool_mode import complete, judged
from evals.tools import Trajectory
from evals.writers import Generated, Unanswered, Writer
from stage import Preempted, Progress, UsageError

Mode = Literal["greedy", "sampled"]


class Host(Protocol):
    """Whose work the asking is: the running stage, or a command."""

    name: str
    preempted: bool

    def progress(self, description: str, total: int | None, unit: str) -> Progress:
        """A progress display."""

    def drop(self, reason: str) -> None:
        """Count a problem that was not asked."""


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
    writer: Writer,
    file: SampleFile,
    config: EvalsConfig,
    host: Host,
    sandbox: Sandbox | RemoteSandbox | None = None,
) -> None:
    """Do the job in batches, appending each to the file. Raises Preempted between two batches when asked to stop.

    The modes pot and tool need the sandbox. What may be answered another time is dropped and counted, not written.
    """
    label = f"{writer.name}, {job.benchmark.title}, {job.mode}"
    size = max(1, config.batch_size // job.completions)
    right = 0
    with host.progress(label, len(job.problems) * job.completions, "answers") as progress:
        for start in range(0, len(job.problems), size):
            if host.preempted:
                raise Preempted(host.name)
            batch = job.problems[start : start + size]
            lines = _answers(job, writer, batch, config, sandbox, host.drop)
            file.append(lines)
            right += sum(c["correct"] for line in lines for c in line["completions"])
            asked = min(start + size, len(job.problems)) * job.completions
            progress.update(len(batch) * job.completions, right=f"{right} of {asked}")


def _answers(
    job: Job,
    writer: Writer,
    batch: list[Problem],
    config: EvalsConfig,
    sandbox: Sandbox | RemoteSandbox | None,
    drop: Callable[[str], None],
) -> list[dict[str, Any]]:
    prompts = [job.benchmark.prompt(p, job.few_shot) for p in batch]
    sampling = sampling_parameters(job, config)
    found: Sequence[Sequence[Generated | Trajectory] | Unanswered]
    if job.run.mode == "cot":
        found = writer.write(prompts, sampling, job.completions)
    else:
        assert sandbox is not None
        found = complete(writer, sandbox, job.run, prompts, sampling, job.completions)
    lines = []
    for problem, prompt, written in zip(batch, prompts, found, strict=True):
        tokens = writer.prompt_tokens(prompt)
        if not isinstance(written, Unanswered):
            lines.append(_line(job, problem, [_judged(job.benchmark, problem, w) for w in written], tokens, None))
        elif written.again:
            drop(written.reason)
        else:
            lines.append(_line(job, problem, [], tokens, written.reason))
    return lines


def sampling_parameters(job: Job, config: EvalsConfig) -> dict[str, Any]:
    """Temperature and lengths of a job, as SGLang calls them."""
    greedy = {"temperature": 0.0}
    parameters = greedy if job.mode == "greedy" else {"temperature": config.temperature, "top_p": config.top_p}
    return {**parameters, "max_new_tokens": job.run.max_new_tokens}


def _judged(benchmark: Benchmark, problem: Problem, written: Generated | Trajectory) -> dict[str, Any]:
    if isinstance(written, Trajectory):
        return judged(benchmark, problem, written)
    answer, correct = benchmark.judge(problem.gold, written.text)
    return {
        "text": written.text,
        "answer": answer,
        "correct": correct,
        "finish_reason": written.finish_reason,
        "tokens": written.tokens,
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
