"""Builds megatron's GPTModel for a profile: Transformer Engine layers on a GPU, torch layers on a CPU."""

from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

from pretrain import device
from pretrain.config import ModelConfig, TrainingConfig
from pretrain.precision import transformer_config_fields


class TorchRMSNorm(torch.nn.RMSNorm):
    """torch's RMSNorm in megatron's terms: with sequence parallelism its gradient is summed over the tp group."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps)
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]


def transformer_config(model: ModelConfig, train: TrainingConfig) -> TransformerConfig:
    """megatron's configuration. Losses are sums with explicit counts (`calculate_per_token_loss`), see engine.py."""
    gpu = device.on_gpu()
    fused = {
        name: gpu
        for name in (
            "masked_softmax_fusion",
            "bias_activation_fusion",
            "bias_dropout_fusion",
            "apply_rope_fusion",
            "persist_layer_norm",
        )
    }
    recompute = {"recompute_granularity": "selective"} if train.recompute_activations else {}
    return TransformerConfig(
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        num_attention_heads=model.num_attention_heads,
        num_query_groups=model.num_query_groups,
        ffn_hidden_size=model.ffn_hidden_size,
        layernorm_epsilon=model.norm_epsilon,
        init_method_std=model.init_method_std,
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=train.parallel.tensor_model_parallel_size,
        pipeline_model_parallel_size=train.parallel.pipeline_model_parallel_size,
        sequence_parallel=train.parallel.sequence_parallel,
        use_cpu_initialization=not gpu,
        gradient_accumulation_fusion=False,
        calculate_per_token_loss=True,
        **fused,
        **recompute,
        **transformer_config_fields(train.precision),
    )


def build(model: ModelConfig, train: TrainingConfig) -> GPTModel:
    """This rank's part of the model: its pipeline stage, its tensor-parallel shard, random weights."""
    config = transformer_config(model, train)
    spec = get_gpt_layer_with_transformer_engine_spec() if device.on_gpu() else _cpu_spec(config)
    return GPTModel(
        config,
        spec,
        vocab_size=model.vocab_size,  # a multiple of tp: padding rows would take part in the softmax
        max_sequence_length=model.max_position_embeddings,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type="rope",
        rotary_base=int(model.rotary_base),
        share_embeddings_and_output_weights=model.tie_word_embeddings,
    ).to(device.device())


def _cpu_spec(config: TransformerConfig) -> TransformerBlockSubmodules:
    layer = get_gpt_layer_local_spec(normalization="RMSNorm")
    layer.submodules.input_layernorm = TorchRMSNorm
    layer.submodules.pre_mlp_layernorm = TorchRMSNorm
    layers = config.num_layers // config.pipeline_model_parallel_size
    return TransformerBlockSubmodules(layer_specs=[layer] * layers, layer_norm=TorchRMSNorm)
