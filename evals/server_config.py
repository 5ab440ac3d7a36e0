"""Settings of the SGLang server that writes every sample of the recipe: evaluation, step labels and GRPO rollouts."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt


class ServerConfig(BaseModel):
    """How one SGLang server is started. None leaves SGLang's own default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: Literal["cpu", "cuda"] = "cuda"
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    tp_size: PositiveInt = 1  # GPUs one copy of the model is cut over
    dp_size: PositiveInt = 1  # copies of the model behind the one address
    mem_fraction_static: float | None = Field(None, gt=0, lt=1)  # of the memory, for weights and KV cache
    max_total_tokens: PositiveInt | None = None  # tokens the KV cache holds
    max_running_requests: PositiveInt | None = None  # sequences decoded together
    context_length: PositiveInt | None = None  # longest prompt plus answer
    omp_num_threads: PositiveInt = 1  # CPU threads of the model's process
    start_timeout_seconds: PositiveFloat = 600.0
    request_timeout_seconds: PositiveFloat = 3600.0  # for one HTTP call, which carries many sequences
    extra_args: tuple[str, ...] = ()  # passed to sglang.launch_server as they are
