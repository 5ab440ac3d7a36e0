"""megatron's distributed optimizer: apex's or Transformer Engine's fused Adam where they import, torch's otherwise."""

from typing import Any

from megatron.core.optimizer import OptimizerConfig as MegatronOptimizerConfig
from megatron.core.optimizer import get_megatron_optimizer

from pretrain.config import TrainingConfig
from pretrain.precision import dtype_of


def build(ddp_model: Any, train: TrainingConfig) -> Any:
    """AdamW over the data-parallel group's shards of `ddp_model`; master weights and moments in fp32."""
    c = train.optimizer
    config = MegatronOptimizerConfig(
        optimizer="adam",
        lr=c.lr,
        min_lr=0.0,
        weight_decay=c.weight_decay,
        adam_beta1=c.adam_beta1,
        adam_beta2=c.adam_beta2,
        adam_eps=c.adam_eps,
        clip_grad=c.clip_grad,
        bf16=train.precision.dtype == "bf16",
        params_dtype=dtype_of(train.precision),
        use_distributed_optimizer=True,
    )
    return get_megatron_optimizer(config, [ddp_model])
