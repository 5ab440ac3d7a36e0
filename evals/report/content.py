"""Everything the report says, as one dictionary of JSON values: report.json, and the source of the other two.

In: the samples of every checkpoint and benchmark, and the run directory for what earlier stages left there.
"""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from evals.report.costs import stage_costs
from evals.report.curves import manifests, training_curves
from evals.scoring import Intervals, Line, compare, summarize

SMALL_MODEL = 50_000_000  # parameters; below it the report explains the low scores
NEAR_ZERO = 0.05
PUBLIC = ("gsm8k", "math", "cmath")

Samples = dict[str, dict[str, list[Line]]]  # benchmark -> checkpoint -> lines


def gather(
    run_dir: Path,
    run: dict[str, str],
    titles: dict[str, str],
    checkpoints: dict[str, Path],
    samples: Samples,
    intervals: Intervals,
    rollout_tokens: int = 0,
    evaluation: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The report. `run` holds name, profile and code version; `titles` and `checkpoints` keep the order to show.

    `rollout_tokens` is how many tokens GRPO sampled; its manifest doesn't say. `evaluation` is what the manifest of the
    stage that writes this report will say, as far as is known: time, metrics, counts.
    """
    stages = manifests(run_dir) | ({"evals": evaluation} if evaluation else {})
    reward = stages.get("reward", {}).get("metrics", {})
    results = {b: {c: summarize(lines, intervals) for c, lines in of.items()} for b, of in samples.items()}
    sizes = {name: parameters(path) for name, path in checkpoints.items()}
    return {
        **run,
        "confidence": intervals.confidence,
        "benchmarks": titles,
        "checkpoints": sizes,
        "results": results,
        "comparisons": [
            {"benchmark": b, "before": x, "after": y, "metrics": compare(samples[b][x], samples[b][y], intervals)}
            for b in titles
            for x, y in pairwise(checkpoints)
        ],
        "paper": yaml.safe_load((Path(__file__).parent / "paper.yaml").read_text(encoding="utf-8")),
        "why_low": why_low(results, max(sizes.values())),
        "corpus_rounds": stages.get("corpus", {}).get("metrics", {}).get("rounds", []),
        "reward_model": {k: v for k, v in reward.items() if k.startswith("held_out_")},
        "stages": stage_costs(run_dir, stages, rollout_tokens),
        "curves": training_curves(run_dir, stages),
    }


def parameters(checkpoint: Path) -> int:
    """How many weights a Hugging Face checkpoint holds, from the headers of its safetensors files."""
    total = 0
    for file in checkpoint.glob("*.safetensors"):
        with open(file, "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        total += sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")
    return total


def why_low(results: dict[str, dict[str, Any]], size: int) -> str | None:
    """A plain explanation when a small model is near zero on a public benchmark; None when it is not."""
    low = [b for b in PUBLIC if b in results and any(_accuracy(r) < NEAR_ZERO for r in results[b].values())]
    if not low or not 0 < size < SMALL_MODEL:
        return None
    return (
        f"The model of this run has {size / 1e6:.1f} million parameters, {7e9 / size:,.0f} times fewer than the "
        "paper's 7 billion, and has read this run's small corpus, where the paper's has read hundreds of billions of "
        "tokens. The public benchmarks ask for reading comprehension, knowledge of mathematics and several steps of "
        "exact reasoning in free language; such a model has none of them, so it lands near zero there, and what it "
        "does get right is mostly a small number guessed well. Those columns show that the benchmark code runs from "
        "end to end, not what the recipe can do. What training changes shows on the task made for this size, the word "
        "problems: GSM8K's answer format, arithmetic within reach, test problems whose arithmetic training never "
        "showed. The profiles 1.3b and 7b run the same code on models for which the public benchmarks mean something."
    )


def _accuracy(result: dict[str, Any]) -> float:
    return float(result["metrics"].get("accuracy", {}).get("value", 0.0))
