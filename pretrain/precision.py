"""Number formats: the TransformerConfig fields for fp32, bf16 and FP8.

FP8 (Transformer Engine, Hopper and later) keeps master weights in fp32 and runs the linear layers' matrix products in
8 bits with a scale per tensor or block: E4M3 (more mantissa) forward and, in "hybrid", E5M2 (more range) for gradients.
The recipe says where the scale comes from: "delayed" from the largest value of the last `fp8_amax_history_len` steps,
"tensorwise" from the tensor at hand, "blockwise" from each 128 x 128 block of it.
"""

from typing import Any

import torch

from pretrain import device
from pretrain.config import PrecisionConfig
from stage import UsageError


def dtype_of(precision: PrecisionConfig) -> torch.dtype:
    """The dtype of the weights that the forward pass uses."""
    return torch.bfloat16 if precision.dtype == "bf16" else torch.float32


def transformer_config_fields(precision: PrecisionConfig) -> dict[str, Any]:
    """Keyword arguments of megatron's TransformerConfig. Raises UsageError for FP8 without a GPU."""
    fields: dict[str, Any] = {
        "bf16": precision.dtype == "bf16",
        "params_dtype": dtype_of(precision),
        "pipeline_dtype": dtype_of(precision),
    }
    if precision.fp8 is None:
        return fields
    if not device.on_gpu():
        raise UsageError(f"precision.fp8 is {precision.fp8!r}, which needs Transformer Engine on a GPU; set it to null")
    return fields | {
        "fp8": precision.fp8,
        "fp8_recipe": precision.fp8_recipe,
        "fp8_amax_history_len": precision.fp8_amax_history_len,
        "fp8_amax_compute_algo": "max",
    }
