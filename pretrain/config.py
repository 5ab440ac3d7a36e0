"""Settings of the model, of the Megatron engine and of continued pretraining. Defaults are the paper's 7B run."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from stage.section import Section


class ModelConfig(Section):
    """A Llama-shaped decoder: RMSNorm, RoPE, SwiGLU (section 2.3). Defaults are DeepSeek-Coder-Base-v1.5 7B's."""

    num_layers: PositiveInt = 30
    hidden_size: PositiveInt = 4096
    num_attention_heads: PositiveInt = 32
    num_query_groups: PositiveInt = 32
    ffn_hidden_size: PositiveInt = 11008
    vocab_size: PositiveInt = 102400
    max_position_embeddings: PositiveInt = 4096
    rotary_base: PositiveFloat = 10000.0
    norm_epsilon: PositiveFloat = 1e-6
    tie_word_embeddings: bool = False
    init_method_std: PositiveFloat = 0.006
    init_from: str | None = None  # a local Hugging Face checkpoint to start from; None: random weights

    @model_validator(mode="after")
    def _shapes_fit(self) -> "ModelConfig":
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if self.num_attention_heads % self.num_query_groups:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_query_groups {self.num_query_groups}"
            )
        return self


class ParallelConfig(Section):
    """How a training stage is spread over processes: data-parallel size = world size / (tp * pp)."""

    nproc_per_node: PositiveInt = 8
    nnodes: PositiveInt = 1
    tensor_model_parallel_size: PositiveInt = 1
    pipeline_model_parallel_size: PositiveInt = 1
    sequence_parallel: bool = False

    @property
    def world_size(self) -> int:
        return self.nproc_per_node * self.nnodes

    @property
    def data_parallel_size(self) -> int:
        return self.world_size // (self.tensor_model_parallel_size * self.pipeline_model_parallel_size)


class PrecisionConfig(Section):
    """Number formats of training. FP8 needs Transformer Engine, that is, a GPU."""

    dtype: Literal["fp32", "bf16"] = "bf16"
    fp8: Literal["hybrid", "e4m3"] | None = None
    fp8_recipe: Literal["delayed", "tensorwise", "blockwise"] = "delayed"
    fp8_amax_history_len: PositiveInt = 1024


class OptimizerConfig(Section):
    """AdamW and its schedule (paper, section 2.3: beta 0.9/0.95, weight decay 0.1)."""

    lr: PositiveFloat
    lr_schedule: Literal["multi_step", "constant"] = "constant"
    lr_warmup_steps: int = Field(0, ge=0)
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.95, ge=0, lt=1)
    adam_eps: PositiveFloat = 1e-8
    weight_decay: float = Field(0.1, ge=0)
    clip_grad: float = Field(1.0, ge=0)


class TrainingConfig(Section):
    """What every training stage sets. A step consumes `global_batch_size` sequences of at most `seq_length` tokens."""

    parallel: ParallelConfig = ParallelConfig()
    precision: PrecisionConfig = PrecisionConfig()
    optimizer: OptimizerConfig
    micro_batch_size: PositiveInt = 1
    global_batch_size: PositiveInt
    seq_length: PositiveInt = 4096
    save_interval: PositiveInt = 100
    recompute_activations: bool = False

    @model_validator(mode="after")
    def _batch_divides(self) -> "TrainingConfig":
        p = self.parallel
        if p.world_size % (p.tensor_model_parallel_size * p.pipeline_model_parallel_size):
            raise ValueError(
                f"parallel: {p.world_size} processes are not a multiple of tensor_model_parallel_size "
                f"{p.tensor_model_parallel_size} * pipeline_model_parallel_size {p.pipeline_model_parallel_size}"
            )
        if self.global_batch_size % (self.micro_batch_size * p.data_parallel_size):
            raise ValueError(
                f"global_batch_size {self.global_batch_size} is not a multiple of micro_batch_size "
                f"{self.micro_batch_size} * data-parallel size {p.data_parallel_size}"
            )
        return self


class PretrainConfig(TrainingConfig):
    """Continued pretraining (section 2.3): 500B tokens, batch of 10M tokens, peak 4.2e-4, multi-step schedule."""

    optimizer: OptimizerConfig = OptimizerConfig(lr=4.2e-4, lr_schedule="multi_step", lr_warmup_steps=2000)
    global_batch_size: PositiveInt = 2560  # * 4096 = 10.5M tokens
    train_tokens: PositiveInt = 500_000_000_000

    @property
    def train_iters(self) -> int:
        """Optimizer steps: the token budget over the tokens of one batch, rounded up."""
        return -(-self.train_tokens // (self.global_batch_size * self.seq_length))
