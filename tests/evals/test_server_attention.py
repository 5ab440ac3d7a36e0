"""Batched attention equals SGLang's own loop over sequences; sampling follows its probabilities."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch

os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")

from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

from evals.batched_attention import PADDING_FACTOR, PADDING_TOKENS, BatchedAttention, split
from evals.sglang_cpu import sample_from_probs

HEADS, DIM, SLOTS = 4, 16, 2000


def batch(new: list[int], cached: list[int], kv_heads: int, seed: int) -> dict[str, Any]:
    """Queries for `new` tokens of sequences that already hold `cached` tokens, and the cache in scattered slots."""
    torch.manual_seed(seed)
    total = [n + c for n, c in zip(new, cached, strict=True)]
    table = torch.zeros(len(new) + 3, max(total) + 5, dtype=torch.int32)
    requests = torch.randperm(len(new) + 3)[: len(new)]  # not in the table's order
    free = torch.randperm(SLOTS)
    for request, length in zip(requests, total, strict=True):
        table[request, :length], free = free[:length].int(), free[length:]
    return {
        "query": torch.randn(sum(new), HEADS, DIM),
        "k_cache": torch.randn(SLOTS, kv_heads, DIM),
        "v_cache": torch.randn(SLOTS, kv_heads, DIM),
        "req_to_token": table,
        "req_pool_indices": requests,
        "seq_lens": torch.tensor(total),
        "extend_prefix_lens": torch.tensor(cached),
        "extend_seq_lens": torch.tensor(new),
    }


def both(inputs: dict[str, Any], decode: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs of SGLang's backend and of ours for the same step."""
    name = "_run_sdpa_forward_decode" if decode else "_run_sdpa_forward_extend"
    arguments = {k: v for k, v in inputs.items() if not (decode and k.startswith("extend"))}
    kv_heads = inputs["k_cache"].shape[1]
    options = {"scaling": 0.3, "enable_gqa": kv_heads != HEADS, "causal": not decode}
    runner = SimpleNamespace(device="cpu")
    theirs, ours = TorchNativeAttnBackend(runner), BatchedAttention(runner)
    ours.init_forward_metadata(
        SimpleNamespace(
            forward_mode=SimpleNamespace(is_decode=lambda: decode),
            req_to_token_pool=SimpleNamespace(req_to_token=inputs["req_to_token"]),
            **{k: inputs[k] for k in ("req_pool_indices", "seq_lens", "extend_prefix_lens", "extend_seq_lens")},
        )
    )
    results = []
    for backend in (theirs, ours):
        output = torch.full_like(inputs["query"], float("nan"))
        call = dict(arguments, output=output)
        order = ["query", "output", "k_cache", "v_cache"]
        getattr(backend, name)(*(call.pop(key) for key in order), *call.values(), **options)
        results.append(output)
    return results[0], results[1]


@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
@pytest.mark.parametrize("lengths", [[1], [7, 7, 7], [1, 2, 40, 300, 41, 3, 170], list(range(1, 60))])
def test_decoding_equals_the_loop_over_sequences(lengths: list[int], kv_heads: int) -> None:
    theirs, ours = both(batch([1] * len(lengths), [n - 1 for n in lengths], kv_heads, seed=len(lengths)), decode=True)
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize(
    ("new", "cached"),
    [([5], [0]), ([5, 9, 1, 30], [0, 0, 0, 0]), ([1, 1, 20, 3, 1], [50, 4, 0, 100, 300]), ([4, 4], [4, 200])],
)
def test_prefilling_equals_the_loop_over_sequences(new: list[int], cached: list[int], kv_heads: int) -> None:
    theirs, ours = both(batch(new, cached, kv_heads, seed=sum(new)), decode=False)
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)


def test_buckets_hold_every_sequence_once_and_little_padding() -> None:
    torch.manual_seed(0)
    total = torch.randint(1, 1000, (300,)).tolist()
    buckets = list(split([1] * len(total), total))
    assert sorted(i for bucket in buckets for i in bucket) == list(range(len(total)))
    for bucket in buckets:
        lengths = [total[i] for i in bucket]
        assert max(lengths) <= max(min(lengths) * PADDING_FACTOR, min(lengths) + PADDING_TOKENS)
    assert len(buckets) < 30


def test_a_long_prompt_and_a_cached_one_are_not_padded_together() -> None:
    assert list(split([64, 1, 1, 60], [64, 64, 64, 60])) == [[1, 2], [3, 0]]


def test_samples_follow_the_probabilities() -> None:
    torch.manual_seed(0)
    probs = torch.tensor([0.5, 0.0, 0.25, 0.2, 0.05, 0.0])
    draws = 20_000
    counts = torch.bincount(sample_from_probs(probs.expand(draws, -1)), minlength=6).double()
    assert counts[probs == 0].sum() == 0
    expected = probs[probs > 0].double() * draws
    chi_square = ((counts[probs > 0] - expected) ** 2 / expected).sum().item()
    assert chi_square < 16.27  # the 99.9th percentile with 3 degrees of freedom


def test_a_certain_token_is_always_drawn() -> None:
    probs = torch.nn.functional.one_hot(torch.arange(50), 50).float()
    assert sample_from_probs(probs).tolist() == list(range(50))
