"""Hugging Face (Llama layout) <-> megatron weights, under any tensor and pipeline parallelism.

The two differ in grouping only. megatron's `linear_qkv` holds, for each query group, its query heads, then its key,
then its value; `linear_fc1` holds gate and up one after the other *on each rank*; Hugging Face has one matrix each.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from safetensors import safe_open
from safetensors.torch import save_file

from pretrain import device
from pretrain.config import ModelConfig
from stage import UsageError, atomic_write

Weights = dict[str, torch.Tensor]
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def config_dict(model: ModelConfig, dtype: torch.dtype, eos_token_id: int) -> dict[str, Any]:
    """The `config.json` of a LlamaForCausalLM with the shape of `model`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": model.hidden_size,
        "intermediate_size": model.ffn_hidden_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_attention_heads,
        "num_key_value_heads": model.num_query_groups,
        "head_dim": model.hidden_size // model.num_attention_heads,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_position_embeddings,
        "rms_norm_eps": model.norm_epsilon,
        "rope_theta": model.rotary_base,
        "tie_word_embeddings": model.tie_word_embeddings,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": eos_token_id,
        "eos_token_id": eos_token_id,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def save(weights: Weights, model: ModelConfig, tokenizer: str | Path, eos_token_id: int, output: Path) -> None:
    """Write `weights` (from `gather`) as a checkpoint that transformers and SGLang load. Call on rank 0."""
    output.mkdir(parents=True, exist_ok=True)
    dtype = next(iter(weights.values())).dtype
    save_file(weights, output / "model.safetensors", metadata={"format": "pt"})
    atomic_write(output / "config.json", json.dumps(config_dict(model, dtype, eos_token_id), indent=2))
    for name in TOKENIZER_FILES:
        if (Path(tokenizer) / name).is_file():
            shutil.copy(Path(tokenizer) / name, output / name)


@torch.no_grad()
def gather(bare: Any, model: ModelConfig) -> Weights:
    """The whole model in Hugging Face names on rank 0's CPU, {} elsewhere. Every rank calls it.

    Data-parallel replicas have nothing to add, and of a tensor-parallel group one rank alone keeps what is gathered: a
    host needs room for one copy of the model, not for one a GPU.
    """
    if parallel_state.get_data_parallel_rank() != 0:
        return {}
    weights: Weights = {}
    first_of_group = parallel_state.get_tensor_model_parallel_rank() == 0
    for part in _local_parts(bare):
        full = _gather_tensor_parallel(part)
        if first_of_group:
            weights.update(part.to_hf(full, model))
    return _bring_to_first_stage(weights) if first_of_group else {}


@torch.no_grad()
def load(bare: Any, model: ModelConfig, checkpoint: str | Path) -> None:
    """Copy this rank's part of a local Hugging Face checkpoint into `bare`.

    Raises UsageError naming the tensor that the checkpoint lacks or that has another shape than the profile's, or the
    setting of config.json that shapes do not show (heads, RoPE, epsilon) and that is not the profile's.
    """
    _check_config(Path(checkpoint), model)
    source = _open_checkpoint(Path(checkpoint))
    tp, rank = parallel_state.get_tensor_model_parallel_world_size(), parallel_state.get_tensor_model_parallel_rank()
    for part in _local_parts(bare):
        full = part.from_hf(source, model)
        if part.split_dim is not None:
            full = _split(full, part, tp)[rank]
        if full.shape != part.parameter.shape:
            raise UsageError(
                f"{checkpoint}: {part.name} has shape {list(full.shape)}, "
                f"the profile's model {list(part.parameter.shape)}"
            )
        part.parameter.copy_(full)


class _Part:
    """One megatron parameter of this rank: how it is split, and its Hugging Face counterparts."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, hf_names: list[str], split_dim: int | None) -> None:
        self.name, self.parameter, self.hf_names, self.split_dim = name, parameter, hf_names, split_dim
        self.gated = name.endswith("linear_fc1.weight")

    def to_hf(self, full: torch.Tensor, model: ModelConfig) -> Weights:
        if len(self.hf_names) == 3:
            parts = _split_qkv(full, model)
        elif len(self.hf_names) == 2:
            parts = list(full.chunk(2))
        else:
            parts = [full]
        return {n: p.to("cpu", copy=True).contiguous() for n, p in zip(self.hf_names, parts, strict=True)}

    def from_hf(self, source: Callable[[str], torch.Tensor], model: ModelConfig) -> torch.Tensor:
        tensors = [source(name) for name in self.hf_names]
        return _join_qkv(tensors, model) if len(tensors) == 3 else torch.cat(tensors)


def _local_parts(bare: Any) -> Iterator[_Part]:
    """This rank's parameters in the order of the model. Layer numbers are the whole model's."""
    if bare.pre_process:
        yield _Part("embedding", bare.embedding.word_embeddings.weight, ["model.embed_tokens.weight"], 0)
    for layer in bare.decoder.layers:
        yield from _layer_parts(layer)
    if bare.post_process:
        yield _Part("final_layernorm", bare.decoder.final_layernorm.weight, ["model.norm.weight"], None)
        if not bare.share_embeddings_and_output_weights:
            yield _Part("output_layer", bare.output_layer.weight, ["lm_head.weight"], 0)
        elif not bare.pre_process:  # a tied copy on the last pipeline stage
            yield _Part("output_layer", bare.output_layer.weight, ["model.embed_tokens.weight"], 0)


_LAYER_PARTS: dict[str, tuple[list[str], int | None]] = {
    "input_layernorm.weight": (["input_layernorm"], None),
    "self_attention.linear_qkv.layer_norm_weight": (["input_layernorm"], None),  # Transformer Engine fuses the norm
    "self_attention.linear_qkv.weight": (["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], 0),
    "self_attention.linear_proj.weight": (["self_attn.o_proj"], 1),
    "pre_mlp_layernorm.weight": (["post_attention_layernorm"], None),
    "mlp.linear_fc1.layer_norm_weight": (["post_attention_layernorm"], None),
    "mlp.linear_fc1.weight": (["mlp.gate_proj", "mlp.up_proj"], 0),
    "mlp.linear_fc2.weight": (["mlp.down_proj"], 1),
}


def _layer_parts(layer: Any) -> Iterator[_Part]:
    prefix = f"model.layers.{layer.layer_number - 1}"
    for name, parameter in layer.named_parameters():
        hf_names, split_dim = _LAYER_PARTS[name]
        yield _Part(f"{prefix}.{name}", parameter, [f"{prefix}.{n}.weight" for n in hf_names], split_dim)


def _gather_tensor_parallel(part: _Part) -> torch.Tensor:
    tp = parallel_state.get_tensor_model_parallel_world_size()
    own = part.parameter.detach().contiguous()
    if tp == 1 or part.split_dim is None:
        return own
    shards = [torch.empty_like(own) for _ in range(tp)]
    dist.all_gather(shards, own, group=parallel_state.get_tensor_model_parallel_group())
    if part.gated:  # each rank holds [gate_r; up_r]
        return torch.cat([half for i in (0, 1) for half in (s.chunk(2)[i] for s in shards)])
    return torch.cat(shards, dim=part.split_dim)


def _bring_to_first_stage(weights: Weights) -> Weights:
    """All stages' weights on the first one, sent tensor by tensor: NCCL has to hold one of them at a time."""
    group = parallel_state.get_pipeline_model_parallel_group()
    first, *others = dist.get_process_group_ranks(group)
    if dist.get_rank() != first:
        dist.send_object_list([{name: (w.shape, w.dtype) for name, w in weights.items()}], first, group)
        for weight in weights.values():
            dist.send(weight.to(device.device()), first, group)
        return {}
    for stage in others:
        listed: list[Any] = [None]
        dist.recv_object_list(listed, stage, group)
        for name, (shape, dtype) in listed[0].items():
            weight = torch.empty(shape, dtype=dtype, device=device.device())
            dist.recv(weight, stage, group)
            weights[name] = weight.cpu()
    return weights


def _split(full: torch.Tensor, part: _Part, tp: int) -> list[torch.Tensor]:
    assert part.split_dim is not None
    if part.gated:
        gate, up = full.chunk(2)
        return [torch.cat(pair) for pair in zip(gate.chunk(tp), up.chunk(tp), strict=True)]
    return list(full.chunk(tp, dim=part.split_dim))


def _split_qkv(full: torch.Tensor, m: ModelConfig) -> list[torch.Tensor]:
    groups, heads = m.num_query_groups, m.num_attention_heads // m.num_query_groups
    grouped = full.view(groups, heads + 2, -1, m.hidden_size)  # [groups, heads + 2, head_dim, hidden]
    return [g.reshape(-1, m.hidden_size) for g in (grouped[:, :heads], grouped[:, heads], grouped[:, heads + 1])]


def _join_qkv(qkv: list[torch.Tensor], m: ModelConfig) -> torch.Tensor:
    grouped = [t.view(m.num_query_groups, -1, m.hidden_size) for t in qkv]  # [groups, heads * head_dim, hidden]
    return torch.cat(grouped, dim=1).reshape(-1, m.hidden_size)


NOT_IN_SHAPES = (
    *("num_attention_heads", "num_key_value_heads", "num_hidden_layers", "rope_theta", "rms_norm_eps"),
    *("tie_word_embeddings", "hidden_act", "attention_bias", "mlp_bias"),
)


def _check_config(path: Path, model: ModelConfig) -> None:
    if not (path / "config.json").is_file():
        raise UsageError(f"{path}: no config.json; expected a local Hugging Face checkpoint")
    theirs = json.loads((path / "config.json").read_text())
    ours = config_dict(model, torch.float32, eos_token_id=0) | {"rope_scaling": None}
    for key in (*NOT_IN_SHAPES, "rope_scaling"):
        if theirs.get(key, ours[key]) != ours[key]:
            raise UsageError(f"{path}/config.json: {key} is {theirs[key]!r}, the profile's model has {ours[key]!r}")


def _open_checkpoint(path: Path) -> Callable[[str], torch.Tensor]:
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise UsageError(f"{path}: no *.safetensors; expected a local Hugging Face checkpoint")
    opened = [safe_open(f, framework="pt") for f in files]
    where = {key: f for f in opened for key in f.keys()}  # noqa: SIM118  (safe_open is not a mapping)

    def tensor(name: str) -> torch.Tensor:
        if name not in where:
            raise UsageError(f"{path}: no tensor {name}; expected the layout of LlamaForCausalLM")
        found: torch.Tensor = where[name].get_tensor(name)
        return found

    return tensor
