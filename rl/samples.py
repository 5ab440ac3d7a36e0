"""samples.jsonl: every rollout with its reward and advantage, one a line, for reading and for replay."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from evals.client import Completion
from rl.questions import Question
from rl.reward.rule import decode
from stage import cut_back_jsonl


class SampleLog:
    """Appends the rollouts of each step; on resumption at `start`, drops what a killed run wrote of later steps."""

    def __init__(self, path: Path, start: int, tokenizer: Any, active: bool) -> None:
        self.active, self.tokenizer = active, tokenizer
        if not active:
            return
        cut_back_jsonl(path, lambda line: line["step"] <= start)
        self.file = open(path, "a")  # noqa: SIM115  (open as long as the stage runs)

    def write(
        self,
        step: int,
        questions: Sequence[Question],
        groups: Sequence[Sequence[Completion]],
        rewards: torch.Tensor,
        advantages: torch.Tensor,
    ) -> None:
        """rewards, advantages: [questions, group_size]."""
        if not self.active:
            return
        for q, group, rs, advs in zip(questions, groups, rewards.tolist(), advantages.tolist(), strict=True):
            for output, reward, advantage in zip(group, rs, advs, strict=True):
                line = {
                    "step": step + 1,
                    "question": q.text,
                    "gold": q.gold,
                    "output": decode(self.tokenizer, output.output_ids),
                    "reward": reward,
                    "advantage": round(advantage, 4),
                    "tokens": len(output.output_ids),
                    "finish_reason": output.finish_reason,
                    "weight_version": output.weight_version,
                }
                self.file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.file.flush()
