"""The modes `pot` and `tool` of a benchmark: the loop of evals.tools between the SGLang server and the sandbox.

In: a job's prompts and a Model. Out: for each prompt the completions as a samples file holds them, with `rounds` and
`executions` besides; `text` includes the outputs, `tokens` counts only what the model wrote.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from evals.benchmarks.loader import Benchmark
from evals.benchmarks.records import Problem
from evals.config import BenchmarkRun, SandboxConfig
from evals.prompts import Prompt, cut_at_stop
from evals.sandbox import Limits, RemoteSandbox, Sandbox
from evals.tools import OUTPUT, Generated, Trajectory, printed_answer, run_program, solve, tool_answer


def make_sandbox(config: SandboxConfig) -> Sandbox | RemoteSandbox:
    """The sandbox that the profile asks for, not started yet."""
    limits = Limits(
        seconds=config.seconds, cpu_seconds=max(1, round(config.seconds)), memory_bytes=config.memory_mb * 2**20
    )
    if config.url:
        return RemoteSandbox(config.url, limits)
    return Sandbox(limits, config.workers)


def complete(
    model: Any,
    sandbox: Sandbox | RemoteSandbox,
    run: BenchmarkRun,
    prompts: Sequence[Prompt],
    sampling: dict[str, Any],
    n: int,
) -> list[list[Trajectory]]:
    """`n` trajectories for each prompt. One that outgrows the model's context ends there, as cut off (`length`)."""
    stop = tuple(sorted({s for p in prompts for s in p.stop} | ({OUTPUT} if run.mode == "tool" else set())))

    def generate(texts: list[str]) -> list[Generated]:
        ids = [model.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        fits = [i for i in range(len(ids)) if len(ids[i]) + run.max_new_tokens < model.context]
        written = [Generated("", 0, "length")] * len(ids)
        groups = model.generate([ids[i] for i in fits], {**sampling, "stop": list(stop)}, 1) if fits else []
        for i, (completion,) in zip(fits, groups, strict=True):
            text = cut_at_stop(model.tokenizer.decode(completion.output_ids, skip_special_tokens=True), stop)
            written[i] = Generated(text, len(completion.output_ids), completion.finish_reason)
        return written

    repeated = [prompt.text for prompt in prompts for _ in range(n)]
    if run.mode == "tool":
        flat = solve(repeated, generate, sandbox.run_many, run.max_rounds)
    else:
        flat = run_program(repeated, generate, sandbox.run_many)
    return [flat[i : i + n] for i in range(0, len(flat), n)]


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


def count_executions(lines: Sequence[dict[str, Any]]) -> dict[str, int]:
    """status -> executions, over the lines of a samples file."""
    completions = (c for line in lines for c in line["completions"])
    return dict(Counter(e["status"] for c in completions for e in c.get("executions", [])))
