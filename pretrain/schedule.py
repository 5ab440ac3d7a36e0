"""The learning rate over the steps of a run."""

from typing import Any

from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from pretrain.config import OptimizerConfig

MULTI_STEP = ((0.9, 0.1), (0.8, 0.316))  # (share of the steps done, share of the peak): paper, section 2.2


def multi_step_lr(step: int, peak: float, warmup_steps: int, train_iters: int) -> float:
    """Learning rate of update number `step` (0 is the first).

    Linear warm-up over `warmup_steps`, then the peak, 31.6% of it after 80% of the steps, 10% after 90%
    (DeepSeekMath, section 2.2).
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    for after, share in MULTI_STEP:
        if step >= after * train_iters:
            return peak * share
    return peak


def constant_lr(step: int, peak: float, warmup_steps: int) -> float:
    """Linear warm-up over `warmup_steps`, then the peak."""
    return peak * min(1.0, (step + 1) / warmup_steps) if warmup_steps else peak


class Scheduler(OptimizerParamScheduler):  # type: ignore[misc]
    """megatron's scheduler (its state is saved and resumed with the rest) with the paper's curves."""

    def __init__(self, optimizer: Any, config: OptimizerConfig, train_iters: int) -> None:
        self.config, self.train_iters = config, train_iters
        super().__init__(
            optimizer,
            init_lr=0.0,
            max_lr=config.lr,
            min_lr=0.0,
            lr_warmup_steps=0,
            lr_decay_steps=train_iters,
            lr_decay_style="constant",
            start_wd=config.weight_decay,
            end_wd=config.weight_decay,
            wd_incr_steps=train_iters,
            wd_incr_style="constant",
            use_checkpoint_opt_param_scheduler=False,
            override_opt_param_scheduler=True,
        )

    def get_lr(self, param_group: dict[str, Any]) -> float:
        """The rate for the next update; `num_steps` counts updates already made."""
        c = self.config
        if c.lr_schedule == "multi_step":
            return multi_step_lr(self.num_steps, c.lr, c.lr_warmup_steps, self.train_iters)
        return constant_lr(self.num_steps, c.lr, c.lr_warmup_steps)
