"""The parts of GRPO that algorithm 1 takes for granted: policy, reference, judge and rollout server, on every rank.

Rank 0 owns the server and speaks to it; what it samples goes to all ranks, which share the update.
"""

import contextlib
from collections.abc import Sequence
from functools import partial

import torch

from evals.client import Completion
from evals.server_config import ServerConfig
from pretrain import hf, parallel
from pretrain.config import ModelConfig
from pretrain.engine import Batch, Engine, token_logprobs
from rl.batch import Output, micro_batches
from rl.config import GrpoConfig, RewardConfig
from rl.objectives import grpo_loss
from rl.questions import Question, read_questions
from rl.reward.labels import line_break_tokens, split_steps
from rl.reward.model import Solution, score, solution_score, step_tokens
from rl.reward.rule import decode, rule_reward
from rl.rollout.engine import RolloutEngine
from rl.samples import SampleLog
from stage import Stage

Groups = list[list[Completion]]


class Trainer:
    """Everything one GRPO step needs, built from the profile and the outputs of earlier stages."""

    def __init__(self, stage: Stage) -> None:
        from transformers import AutoTokenizer

        self.stage, self.seed = stage, int(stage.profile["seed"])
        self.config = config = stage.section("grpo", GrpoConfig)
        model = stage.section("model", ModelConfig)
        parallel.initialize(config.parallel, self.seed)
        self.tokenizer = AutoTokenizer.from_pretrained(stage.profile["tokenizer"])
        self.eos: int = self.tokenizer.eos_token_id
        self.questions = read_questions(stage, config, self.tokenizer, self.seed + 2)
        sft = stage.input("sft") / "hf"
        updates = config.train_iters * config.epochs_per_step
        updates *= config.questions_per_step * config.group_size // config.global_batch_size
        self.policy = Engine(model, config, weights=sft, train_iters=updates)
        self.reference = Engine(model, config, weights=sft)
        self.judge = Engine(model, config, stage.input("reward") / "hf") if config.reward == "reward_model" else None
        self._breaks = line_break_tokens(self.tokenizer)
        self._server: RolloutEngine | None = None
        if stage.rank == 0:
            log = stage.run_dir / "logs" / "grpo.sglang.log"
            self._server = RolloutEngine(sft, stage.section("server", ServerConfig), log, self.seed)

    @property
    def rollouts(self) -> contextlib.AbstractContextManager[object]:
        """Starts and stops the server on rank 0."""
        return self._server or contextlib.nullcontext()

    @property
    def restarts(self) -> int:
        """How often the server died and was started again."""
        return self._server.restarts if self._server else 0

    def sample_log(self, start: int) -> SampleLog:
        """samples.jsonl, cut back to the rollouts before step `start`."""
        return SampleLog(self.stage.work / "samples.jsonl", start, self.tokenizer, active=self.stage.rank == 0)

    def sync_weights(self, step: int) -> None:
        """The server samples from the policy as it is now; its weights carry `step` as their version."""
        weights = hf.gather(self.policy.bare, self.policy.model_config)
        if self._server:
            self._server.sync_weights(weights, version=step)

    def sample(self, questions: Sequence[Question]) -> Groups:
        """`group_size` outputs of each question with the log-probabilities they were sampled with, on every rank."""
        groups: Groups | None = None
        if self._server:
            sampling = {
                "temperature": self.config.temperature,
                "top_p": 1.0,  # the whole distribution, whose log-probabilities the trainer computes
                "top_k": -1,
                "max_new_tokens": self.config.max_new_tokens,
                "stop_token_ids": [self.eos],
            }
            groups = self._server.sample([q.prompt_ids for q in questions], self.config.group_size, sampling)
        return parallel.from_rank_zero(groups)

    def reward(self, questions: Sequence[Question], groups: Groups) -> torch.Tensor:
        """R [questions, group_size] fp32: the rule's 0 or 1, or the reward model's weakest step."""
        if self.judge is not None:
            return self._model_rewards(self.judge, questions, groups)
        rewards = None
        if self.stage.rank == 0:
            rewards = [
                [rule_reward(decode(self.tokenizer, o.output_ids), q.gold) for o in group]
                for q, group in zip(questions, groups, strict=True)
            ]
        return torch.tensor(parallel.from_rank_zero(rewards))

    def _model_rewards(self, judge: Engine, questions: Sequence[Question], groups: Groups) -> torch.Tensor:
        tokens = step_tokens(self.tokenizer, self.stage.section("reward", RewardConfig))
        solutions = [
            Solution(q.prompt_ids, split_steps(o.output_ids, self._breaks), [])
            for q, group in zip(questions, groups, strict=True)
            for o in group
        ]
        scores = torch.tensor([solution_score(p) for p in score(judge, solutions, tokens)])
        return scores.view(len(questions), -1)

    def update(self, questions: Sequence[Question], groups: Groups, advantages: torch.Tensor) -> dict[str, float]:
        """One exploration's policy updates; the mean of their metrics."""
        c = self.config
        outputs = [
            Output(q.prompt_ids, o.output_ids, o.logprobs or [], float(a))
            for q, group, row in zip(questions, groups, advantages, strict=True)
            for o, a in zip(group, row, strict=True)
        ]
        chunks = [outputs[i : i + c.global_batch_size] for i in range(0, len(outputs), c.global_batch_size)]
        rank, ranks = self.policy.data_parallel_rank, self.policy.data_parallel_size
        updates = [micro_batches(chunk, c.micro_batch_size, rank, ranks, self.eos) for chunk in chunks]
        for batches in updates:
            self._add_reference(batches)
        results = [
            self.policy.train_step(batches, partial(_loss, c)).values
            for _ in range(c.epochs_per_step)
            for batches in updates
        ]
        means = {key: sum(r[key] for r in results) / len(results) for key in results[0]}
        # before the first update pi_theta is pi_old: what is left is the trainer and the server computing differently
        return means | {"engine_gap": results[0]["old_policy_gap"]}

    def _add_reference(self, batches: Sequence[Batch]) -> None:
        logprobs = self.reference.forward(batches, partial(_logprobs, self.config.temperature))
        for batch, values in zip(batches, logprobs, strict=False):  # none before the last pipeline stage
            batch["ref_logprobs"] = values

    def describe(self, groups: Groups, rewards: torch.Tensor) -> dict[str, float]:
        """What to watch: the reward, groups that teach nothing, the length of the outputs, those cut off."""
        outputs = [o for group in groups for o in group]
        return {
            "reward": rewards.mean().item(),
            "groups_of_equal_rewards": (rewards == rewards[:, :1]).all(dim=1).float().mean().item(),
            "output_length": sum(len(o.output_ids) for o in outputs) / len(outputs),
            "truncated": sum(o.finish_reason == "length" for o in outputs) / len(outputs),
        }


def _logprobs(temperature: float, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Log-probabilities under the distribution that was sampled from: softmax(logits / temperature)."""
    return token_logprobs(logits, batch["labels"], temperature)


def _loss(
    config: GrpoConfig, logits: torch.Tensor, batch: Batch
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    logprobs = _logprobs(config.temperature, logits, batch)
    loss, metrics = grpo_loss(
        logprobs,
        batch["old_logprobs"],
        batch["ref_logprobs"],
        batch["advantages"],
        batch["mask"],
        config.clip_eps,
        config.kl_coef,
    )
    return loss, torch.tensor(len(logprobs), device=logprobs.device), metrics
