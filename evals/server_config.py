"""Settings of the SGLang server that writes every sample of the recipe: evaluation, step labels and GRPO rollouts."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from stage.section import Section


class ServerConfig(Section):
    """How one SGLang server is started. None leaves SGLang's own default."""

    device: Literal["cpu", "cuda"] = "cuda"
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    tp_size: PositiveInt = 1  # GPUs one copy of the model is cut over
    dp_size: PositiveInt = 1  # copies of the model behind the one address
    mem_fraction_static: float | None = Field(None, gt=0, lt=1)  # of the memory, for weights and KV cache
    max_total_tokens: PositiveInt | None = None  # tokens the KV cache holds
    max_running_requests: PositiveInt | None = None  # sequences decoded together
    context_length: PositiveInt | None = None  # longest prompt plus answer
    # new weights in training: files in /dev/shm, or broadcasts to a server whose GPUs are its own
    weight_sync: Literal["shared_memory", "nccl"] = "shared_memory"
    omp_num_threads: PositiveInt = 1  # CPU threads of the model's process
    start_timeout_seconds: PositiveFloat = 600.0
    request_timeout_seconds: PositiveFloat = 3600.0  # for one HTTP call, which carries many sequences
    extra_args: tuple[str, ...] = ()  # passed to sglang.launch_server as they are

    @model_validator(mode="after")
    def _weights_arrive(self) -> "ServerConfig":
        if self.weight_sync == "nccl" and (self.device != "cuda" or self.dp_size > 1):
            raise ValueError(
                f"weight_sync nccl needs device cuda and dp_size 1, not {self.device} and {self.dp_size}; "
                "use shared_memory"
            )
        return self
