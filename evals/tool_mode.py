"""The modes `pot` and `tool` of a benchmark: the loop of evals.tools between the model and the sandbox.

In: a job's prompts and a Writer. Out: for each prompt the completions as a samples file holds them, with `rounds` and
`executions` besides; `text` includes the outputs, `tokens` counts only what the model wrote.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from evals.benchmarks.loader import Benchmark
from evals.benchmarks.records import Problem
from evals.config import BenchmarkRun, SandboxConfig
from evals.extraction import MARKS, extract_answer
from evals.prompts import Prompt
from evals.sandbox import Limits, RemoteSandbox, Sandbox
from evals.tools import OUTPUT, Trajectory, printed_answer, run_program, solve, tool_answer
from evals.writers import Generated, Unanswered, Writer


def make_sandbox(config: SandboxConfig) -> Sandbox | RemoteSandbox:
    """The sandbox that the profile asks for, not started yet."""
    limits = Limits(
        seconds=config.seconds, cpu_seconds=max(1, round(config.seconds)), memory_bytes=config.memory_mb * 2**20
    )
    if config.url:
        return RemoteSandbox(config.url, limits)
    return Sandbox(limits, config.workers)


def complete(
    writer: Writer,
    sandbox: Sandbox | RemoteSandbox,
    run: BenchmarkRun,
    prompts: Sequence[Prompt],
    sampling: dict[str, Any],
    n: int,
) -> list[list[Trajectory] | Unanswered]:
    """`n` trajectories for each prompt. One that outgrows the model's context ends there, as cut off (`length`)."""
    stop = tuple(sorted({s for p in prompts for s in p.stop} | ({OUTPUT} if run.mode == "tool" else set())))

    def generate(texts: list[str]) -> list[Generated | Unanswered]:
        written = dict(writer.write([Prompt(text, stop) for text in texts], sampling, 1))
        return [w if isinstance(w, Unanswered) else w[0] for _, w in sorted(written.items())]

    repeated = [prompt.text for prompt in prompts for _ in range(n)]
    if run.mode == "tool":
        flat = solve(repeated, generate, sandbox.run_many, run.max_rounds)
    else:
        flat = run_program(repeated, generate, sandbox.run_many)
    return [_together(flat[i : i + n]) for i in range(0, len(flat), n)]


def _together(group: list[Trajectory]) -> list[Trajectory] | Unanswered:
    """The trajectories of one prompt; what outgrew its context after a first round is cut off, no answer less."""
    for trajectory in group:
        unanswered = trajectory.unanswered
        if unanswered is not None and (unanswered.again or not trajectory.rounds):
            return unanswered
        if unanswered is not None:
            trajectory.finish_reason = "length"
    return group


def judged(benchmark: Benchmark, problem: Problem, trajectory: Trajectory) -> dict[str, Any]:
    """The trajectory as a completion of a samples file."""
    if benchmark.mode == "tool":
        answer = tool_answer(trajectory, benchmark.spec.extraction)
    else:
        answer = printed_answer(trajectory)
    return {
        "text": trajectory.text,
        "answer": answer,
        "correct": answer is not None and benchmark.same(problem.gold, answer),
        "finish_reason": trajectory.finish_reason,
        "tokens": trajectory.tokens,
        "rounds": trajectory.rounds,
        "executions": [{"status": e.status, "seconds": e.seconds} for e in trajectory.executions],
    }


def judged_again(benchmark: Benchmark, gold: str, completion: dict[str, Any]) -> tuple[str | None, bool]:
    """The answer in a completion of a samples file, and whether it is right, by the benchmark's present rules.

    What a program printed is kept cut to what the model saw, so an answer that came from there stands as it was found.
    """
    answer: str | None = completion["answer"]
    if benchmark.mode == "cot" or (benchmark.mode == "tool" and not completion["executions"]):
        answer = extract_answer(completion["text"], benchmark.spec.extraction)
    elif benchmark.mode == "tool":
        answer = extract_answer(completion["text"], [m for m in benchmark.spec.extraction if m in MARKS]) or answer
    return answer, answer is not None and benchmark.same(gold, answer)


def count_executions(lines: Sequence[dict[str, Any]]) -> dict[str, int]:
    """status -> executions, over the lines of a samples file."""
    completions = (c for line in lines for c in line["completions"])
    return dict(Counter(e["status"] for c in completions for e in c.get("executions", [])))
