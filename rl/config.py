"""Settings of the reward model (paper, section 4; Math-Shepherd) and of GRPO (paper, section 4.2)."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from pretrain.config import OptimizerConfig, TrainingConfig
from stage.section import Section


class Questions(Section):
    """Questions with a known answer: JSONL with `question` and `answer`, or the demo's seeded generator."""

    path: str | None = None  # None: the generator of evals/benchmarks/word_problems.py
    question_key: str = "question"
    answer_key: str = "answer"
    num_questions: PositiveInt = 144_000


class RewardConfig(TrainingConfig):
    """Math-Shepherd: label steps by completing them, then train a process reward model on the labels."""

    optimizer: OptimizerConfig = OptimizerConfig(lr=2e-5)
    global_batch_size: PositiveInt = 256
    questions: Questions = Questions()
    num_solutions: PositiveInt = 15  # solutions sampled from the SFT model for each question
    num_completions: PositiveInt = 8  # N: completions of each prefix
    label: Literal["hard", "soft"] = "hard"
    temperature: PositiveFloat = 1.0
    max_new_tokens: PositiveInt = 1024
    step_token: str = "ки"  # ends every step; its output says good or bad (Math-Shepherd's choice of tokens)
    good_token: str = "+"
    bad_token: str = "-"
    epochs: PositiveInt = 1
    held_out_fraction: float = Field(0.05, gt=0, lt=1)  # of the questions; their steps measure the accuracy


class GrpoConfig(TrainingConfig):
    """GRPO. One step samples `questions_per_step * group_size` outputs and goes `epochs_per_step` times over them."""

    optimizer: OptimizerConfig = OptimizerConfig(lr=1e-6)
    global_batch_size: PositiveInt = 1024  # outputs in one policy update
    train_iters: PositiveInt = 1000
    questions: Questions = Questions()
    questions_per_step: PositiveInt = 16
    group_size: PositiveInt = Field(64, ge=2)  # G
    epochs_per_step: PositiveInt = 1  # passes over the outputs of one exploration (the paper: one update for each)
    kl_coef: float = Field(0.04, ge=0)  # beta
    clip_eps: PositiveFloat = 0.2
    max_new_tokens: PositiveInt = 1024
    temperature: PositiveFloat = 1.0
    reward: Literal["rule", "reward_model"] = "rule"

    @model_validator(mode="after")
    def _outputs_divide(self) -> "GrpoConfig":
        outputs = self.questions_per_step * self.group_size
        if outputs % self.global_batch_size:
            raise ValueError(
                f"questions_per_step {self.questions_per_step} * group_size {self.group_size} = {outputs} outputs are "
                f"not a multiple of global_batch_size {self.global_batch_size}"
            )
        return self
