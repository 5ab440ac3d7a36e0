"""Starts the SGLang server on a CPU host: `python -m evals.sglang_cpu`, with sglang.launch_server's options.

The server is the installed one. On a CPU a small model loses its time in Python and in start-up, so this module
changes four things before it starts (measured in docs/decisions/sglang-on-cpu.md):

1. Model code. On a CPU without AMX, SGLang takes three layers from vLLM, does not find it, and falls back to running
   models through transformers. Its own layers have a plain torch version: here they keep it.
2. Attention. evals.batched_attention takes over the name torch_native (a new name would send the server down code
   paths that need a GPU).
3. Sampling. torch.multinomial draws one exponential number per token of the vocabulary; the inverse of the cumulative
   distribution needs one uniform number per sequence.
4. Processes. The model's process and the detokenizer are forked instead of spawned: each would otherwise import
   SGLang again, which takes longer than all the rest of the start.
"""

import multiprocessing
import os
import sys
from types import ModuleType
from typing import Any

import torch


class _OwnLayers(ModuleType):
    """Stands for a vLLM module and answers with the names of the SGLang module that is asking."""

    def __init__(self, name: str, asking: str) -> None:
        super().__init__(name)
        self.asking = asking

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(sys.modules[self.asking])[name]
        except KeyError:
            raise AttributeError(name) from None


def keep_own_layers() -> None:
    """Let SGLang's imports of three vLLM modules give it back its own layers.

    Only these names exist afterwards: `import vllm` still fails, so nothing else believes that vLLM is there.
    """
    for name in ("activation", "layernorm"):
        vllm = f"vllm.model_executor.layers.{name}"
        sys.modules[vllm] = _OwnLayers(vllm, asking=f"sglang.srt.layers.{name}")
    kernels = ModuleType("vllm._custom_ops")
    vars(kernels)["rotary_embedding"] = None  # kept by RotaryEmbedding, which calls its own torch version
    sys.modules[kernels.__name__] = kernels


def sample_from_probs(
    probs: torch.Tensor, sampling_seed: torch.Tensor | None = None, positions: torch.Tensor | None = None
) -> torch.Tensor:
    """One token id for each row of `probs` [batch, vocab], drawn with these probabilities: [batch] int32.

    Inverse transform: the first id whose cumulative probability exceeds u, u uniform in [0, 1). In float64, so that
    rounding does not favour ids at the vocabulary's end.
    """
    if sampling_seed is not None:
        raise NotImplementedError("per-request sampling seeds")
    cumulative = probs.double().cumsum(-1)
    u = torch.rand(len(probs), 1, dtype=torch.float64) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, u, right=True).squeeze(1).int()


def adapt_to_cpu() -> None:
    """Make the four changes to the SGLang that this process imports."""
    keep_own_layers()
    multiprocessing.set_start_method("fork")
    multiprocessing.set_start_method = lambda *_args, **_options: None

    from sglang.srt.layers import sampler
    from sglang.srt.layers.attention.attention_registry import register_attention_backend

    import evals.sglang_nccl  # noqa: F401  (broadcasts of weights work over gloo too)
    from evals.batched_attention import BatchedAttention

    sampler.sampling_from_probs_torch = sample_from_probs
    register_attention_backend("torch_native")(BatchedAttention)


def main() -> None:
    """Serve until told to stop."""
    adapt_to_cpu()
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.models import registry  # noqa: F401  (before the fork: the model's process needs it)
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    try:
        launch_server(prepare_server_args(sys.argv[1:]))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main()
