"""Scores evaluation samples with the run's process reward model, for best-of-N and reward-weighted votes.

    python -m rl.reward.score --run-dir runs/tiny      (under torchrun where the reward model needs several GPUs)
    python -m evals.run --rescore runs/tiny/scored

Reads evals/samples and reward/hf; writes scored/samples, every completion with its `reward`: min_k p_k, the judgement
of its weakest step (Math-Shepherd, section 3.4).
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stage import UsageError, atomic_write, outcome, parser

if TYPE_CHECKING:
    from pretrain.engine import Engine
    from rl.reward.model import StepTokens

LINES_AT_ONCE = 64


def run(run_dir: Path) -> int:
    """Score all samples of the run's evals stage."""
    import yaml
    from transformers import AutoTokenizer

    from pretrain import parallel
    from pretrain.config import ModelConfig
    from pretrain.engine import Engine
    from rl.config import RewardConfig
    from rl.reward.model import step_tokens

    files = sorted((run_dir / "evals" / "samples").glob("*/*.jsonl"))
    if not files or not (run_dir / "reward" / "hf").is_dir():
        raise UsageError(f"{run_dir}: needs the published stages reward and evals; run them first")
    profile = yaml.safe_load((run_dir / "profile.yaml").read_text())
    config = RewardConfig.model_validate(profile["reward"])
    if "RANK" not in os.environ:  # without torchrun: one process
        alone = config.parallel.model_copy(update={"nproc_per_node": 1, "nnodes": 1})
        config = config.model_copy(update={"parallel": alone})
    parallel.initialize(config.parallel, int(profile["seed"]))
    tokenizer = AutoTokenizer.from_pretrained(profile["tokenizer"])
    engine = Engine(ModelConfig.model_validate(profile["model"]), config, weights=run_dir / "reward" / "hf")
    tokens = step_tokens(tokenizer, config)
    for file in files:
        _score_file(file, run_dir / "scored" / file.relative_to(run_dir / "evals"), engine, tokenizer, tokens)
    parallel.finalize()
    return 0


def _score_file(source: Path, target: Path, engine: "Engine", tokenizer: Any, tokens: "StepTokens") -> None:
    from evals.sampling import read_samples
    from rl.reward.labels import line_break_tokens
    from rl.reward.model import score, solution_score
    from stage import Progress

    breaks = line_break_tokens(tokenizer)
    lines, quiet = list(read_samples(source)), os.environ.get("RANK", "0") != "0"
    longest = engine.model_config.max_position_embeddings
    with Progress(f"score {source.parent.name}, {source.stem}", len(lines), "problems", quiet=quiet) as progress:
        for start in range(0, len(lines), LINES_AT_ONCE):
            chunk = lines[start : start + LINES_AT_ONCE]
            completions = [(line["question"], c) for line in chunk for c in line["completions"]]
            solutions = [_solution(tokenizer, question, c, breaks) for question, c in completions]
            fitting = [i for i, s in enumerate(solutions) if s.length <= longest]
            scores = score(engine, [solutions[i] for i in fitting], tokens)
            for i, probabilities in zip(fitting, scores, strict=True):
                completions[i][1]["reward"] = solution_score(probabilities)
            progress.update(len(chunk))
    if not quiet:
        atomic_write(target, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def _solution(tokenizer: Any, question: str, completion: dict[str, Any], breaks: frozenset[int]) -> Any:
    """The completion as the reward model reads it: cut into steps, ended as it was sampled."""
    from rl.reward.labels import split_steps
    from rl.reward.model import Solution
    from sft.formats import encode_prompt

    ids = tokenizer.encode(completion["text"], add_special_tokens=False)
    if completion["finish_reason"] == "stop":
        ids.append(tokenizer.eos_token_id)
    return Solution(encode_prompt(tokenizer, question), split_steps(ids, breaks), [])


def main(argv: list[str] | None = None) -> int:
    """Parse, run; 2 for bad input."""
    options = parser(__doc__)
    options.add_argument(
        "--run-dir", required=True, type=Path, help="a run whose stages reward and evals are published"
    )
    args = options.parse_args(argv)
    return outcome(lambda: run(args.run_dir))


if __name__ == "__main__":
    sys.exit(main())
