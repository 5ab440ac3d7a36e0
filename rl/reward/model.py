"""The process reward model: the language model's own head, read at step tags.

A solution is written `prompt step_1 <tag> step_2 <tag> ...`. At the tag after step k the model's next-token
distribution, restricted to a good token and a bad token, is its judgement of step k (paper, section 4; Math-Shepherd).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state

from pretrain.engine import Batch, Engine, token_logprobs
from rl.batch import padded_length
from rl.config import RewardConfig
from stage import UsageError


@dataclass(frozen=True)
class StepTokens:
    """Token ids of the tag and of the two verdicts, and of padding."""

    tag: int
    good: int
    bad: int
    pad: int


@dataclass(frozen=True)
class Solution:
    """A solution cut into steps (token ids), with a label in [0, 1] for each step when it is known."""

    prompt_ids: list[int]
    steps: list[list[int]]
    labels: list[float]

    @property
    def length(self) -> int:
        """Tokens of the tagged sequence."""
        return len(self.prompt_ids) + sum(len(s) + 1 for s in self.steps)


def step_tokens(tokenizer: Any, config: RewardConfig) -> StepTokens:
    """Look the profile's tokens up. Raises UsageError for one that the tokenizer has no single id for."""

    def one(key: str) -> int:
        text = getattr(config, key)
        ids = tokenizer.encode(text, add_special_tokens=False)
        if len(ids) != 1:
            raise UsageError(
                f"reward.{key}: {text!r} is {len(ids)} tokens of the tokenizer, expected one; choose another"
            )
        return int(ids[0])

    return StepTokens(one("step_token"), one("good_token"), one("bad_token"), int(tokenizer.eos_token_id))


def collate(solutions: Sequence[Solution], length: int, tokens: StepTokens) -> Batch:
    """tokens [n, length] int64, tags [n, length] bool (True on a step's tag), step_labels [n, length] fp32."""
    n = len(solutions)
    ids = torch.full((n, length), tokens.pad)
    tags, labels = torch.zeros(n, length, dtype=torch.bool), torch.zeros(n, length)
    for row, solution in enumerate(solutions):
        at = len(solution.prompt_ids)
        ids[row, :at] = torch.tensor(solution.prompt_ids)
        for k, step in enumerate(solution.steps):
            end = at + len(step)
            ids[row, at : end + 1] = torch.tensor([*step, tokens.tag])
            tags[row, end] = True
            labels[row, end] = solution.labels[k] if solution.labels else 0.0
            at = end + 1
    verdict = torch.tensor([[tokens.good, tokens.bad]]).expand(n, 2)
    return {"tokens": ids, "tags": tags, "step_labels": labels, "verdict": verdict}


def step_logits(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """log p(good) - log p(bad) at every tag, in row order. logits [b, s, vocab/tp] -> [number of tags] fp32."""
    at_tags = logits[batch["tags"]]  # [tags, vocab/tp]
    good, bad = batch["verdict"][0]
    count = at_tags.shape[0]
    return token_logprobs(at_tags, good.expand(count)) - token_logprobs(at_tags, bad.expand(count))


def prm_loss(logits: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Cross-entropy of the step labels, averaged over steps:

        -( y log p + (1 - y) log(1 - p) ),   p = pi(good) / (pi(good) + pi(bad)) at the step's tag

    Math-Shepherd (2312.08935), equation 2, with the two-token reading of p.
    """
    z, y = step_logits(logits, batch), batch["step_labels"][batch["tags"]]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="sum")
    right = ((z > 0) == (y > 0.5)).float().sum()
    return loss, batch["tags"].sum(), {"loss": loss.detach(), "accuracy": right.detach()}


def score(engine: Engine, solutions: Sequence[Solution], tokens: StepTokens) -> list[list[float]]:
    """p(good) of every step of every solution, on every rank; the work is shared by the data-parallel ranks."""
    if not solutions:
        return []
    size, rank, ranks = engine.train_config.micro_batch_size, engine.data_parallel_rank, engine.data_parallel_size
    length = padded_length([s.length for s in solutions])
    rounds = -(-len(solutions) // (size * ranks))
    mine = [[(i * ranks + rank) * size + j for j in range(size)] for i in range(rounds)]
    # the last round is filled up with the first solution: every rank runs the same shapes
    batches = [collate([solutions[n if n < len(solutions) else 0] for n in ns], length, tokens) for ns in mine]
    values = engine.forward(batches, lambda logits, batch: step_logits(logits, batch).sigmoid().tolist())
    found: dict[int, list[float]] = {}
    for numbers, flat in zip(mine, values, strict=False):  # no values before the last pipeline stage
        for n in numbers:
            k = len(solutions[n if n < len(solutions) else 0].steps)
            found[n], flat = flat[:k], flat[k:]
    boxes: list[dict[int, list[float]]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(boxes, found if parallel_state.is_pipeline_last_stage() else {})
    merged = {n: v for box in boxes for n, v in box.items()}
    return [merged[n] for n in range(len(solutions))]


def solution_score(step_probabilities: Sequence[float]) -> float:
    """A solution is as good as its weakest step: min_k p_k (Math-Shepherd, section 3.4)."""
    return min(step_probabilities, default=0.0)
