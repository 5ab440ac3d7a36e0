"""Asks a model every question and keeps each answer, so that a killed run never asks twice.

In: a Benchmark and a Writer. Out: samples/<checkpoint>/<benchmark>.jsonl, one line for
the greedy answer and one for the K sampled answers of each problem, appended as they come.
"""

import io
import json
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
from stage import Preempted, Progress, UsageError, cut_back_jsonl

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
        cut_back_jsonl(path)

    def lines(self) -> list[dict[str, Any]]:
        """Every line, oldest first."""
        return read_samples(self.path)

    def done(self, samples: int) -> set[tuple[str, str]]:
        """What need not be asked again: (problem id, mode), with as many completions as are wanted."""
        wanted = {"greedy": 1, "sampled": samples}
        lines = self.lines()
        return {(s["id"], s["mode"]) for s in lines if s["skipped"] or len(s["completions"]) >= wanted[s["mode"]]}

    def append(self, lines: Iterable[dict[str, Any]]) -> None:
        """Add lines; killing this process loses none of them when this has returned."""
        with open(self.path, "a", encoding="utf-8") as f:
            f.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def samples_path(folder: Path, checkpoint: str, benchmark: str) -> Path:
    """Where the samples of a checkpoint on a benchmark are."""
    return folder / "samples" / checkpoint / f"{benchmark}.jsonl"


def read_samples(path: Path, drop: Callable[[str], object] = lambda _: None) -> list[dict[str, Any]]:
    """The lines of a samples file, none where there is no file; a damaged one is a UsageError that names it.

    Of a problem asked again in a mode, because more samples were wanted, the later line counts. A last line that a
    killed run left half-written is left out, and `drop` told.
    """
    samples: dict[tuple[str, str], dict[str, Any]] = {}
    with open(path, "rb") if path.exists() else io.BytesIO() as lines:
        for number, line in enumerate(lines, 1):
            try:
                sample = json.loads(line)
                key = sample["id"], sample["mode"]
                (
                    sample["gold"],
                    sample["skipped"],
                    [(c["text"], c["answer"], c["correct"]) for c in sample["completions"]],
                )
            except (ValueError, KeyError, TypeError) as error:
                if not line.endswith(b"\n"):
                    drop(f"half-written last line of {path}")
                    break
                raise UsageError(f"{path}:{number}: not a sample ({error!r}); delete the line to ask again") from None
            samples[key] = sample
    return list(samples.values())


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
    """Do the job in batches, appending each answer as it comes. Raises Preempted between two when asked to stop.

    The modes pot and tool need the sandbox. What may be answered another time is dropped and counted, not written.
    """
    label = f"{writer.name}, {job.benchmark.title}, {job.mode}"
    size = max(1, config.batch_size // job.completions)
    right = judged = 0
    with host.progress(label, len(job.problems) * job.completions, "answers") as progress:
        for start in range(0, len(job.problems), size):
            if host.preempted:
                raise Preempted(host.name)
            batch = job.problems[start : start + size]
            for line in _answers(job, writer, batch, config, sandbox):
                if isinstance(line, Unanswered):
                    host.drop(line.reason)
                else:
                    file.append([line])
                    judged += len(line["completions"])
                    right += sum(c["correct"] for c in line["completions"])
                progress.update(job.completions, right=f"{right} of {judged}")


def _answers(
    job: Job,
    writer: Writer,
    batch: list[Problem],
    config: EvalsConfig,
    sandbox: Sandbox | RemoteSandbox | None,
) -> Iterator[dict[str, Any] | Unanswered]:
    """A line for each problem, as they come; Unanswered for one that may be answered another time."""
    prompts = [job.benchmark.prompt(p, job.few_shot) for p in batch]
    sampling = sampling_parameters(job, config)
    found: Iterable[tuple[int, Sequence[Generated | Trajectory] | Unanswered]]
    if job.run.mode == "cot":
        found = writer.write(prompts, sampling, job.completions)
    else:
        assert sandbox is not None
        found = enumerate(complete(writer, sandbox, job.run, prompts, sampling, job.completions))
    for i, written in found:
        tokens = writer.prompt_tokens(prompts[i])
        if not isinstance(written, Unanswered):
            yield _line(job, batch[i], [_judged(job.benchmark, batch[i], w) for w in written], tokens, None)
        elif written.again:
            yield written
        else:
            yield _line(job, batch[i], [], tokens, written.reason)


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
