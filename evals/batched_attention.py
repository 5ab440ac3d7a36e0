"""Attention for SGLang on a CPU: a few calls for a whole batch instead of one per sequence and layer.

In: one step's batch (queries, the KV cache, each sequence's slots in it). Out: the attention output, equal to that of
SGLang's torch_native backend up to float rounding (tests/evals/test_server_attention.py).

Once per step the sequences are put into buckets of similar length. For each layer and bucket, the keys and values are
gathered into one padded [sequences, heads, longest, head_dim] tensor and one scaled_dot_product_attention runs.
The gather is most of the cost, so it is an index_select of whole rows in the order that attention reads them: five
times quicker here than `cache[slots]`, and attention on the contiguous result twice as quick.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

# A sequence joins a bucket while padding it to the bucket's longest costs less than this factor or so many tokens.
PADDING_FACTOR = 1.25
PADDING_TOKENS = 16


@dataclass
class Bucket:
    """Sequences of similar length, padded to the longest."""

    tokens: torch.Tensor  # [sequences * most_new]: rows of the step's query tensor; padding repeats the last
    real: torch.Tensor | None  # [sequences * most_new] bool: not padding; None when nothing is
    slots: torch.Tensor  # [sequences, longest]: rows of the KV cache; padding repeats the first
    mask: torch.Tensor  # [sequences, 1, most_new, longest]: 0 where a query sees a key, -inf elsewhere
    rows: dict[int, torch.Tensor]  # KV heads -> [sequences * heads * longest] rows of the cache cut by heads

    def cache_rows(self, heads: int) -> torch.Tensor:
        """`slots` as rows of a cache viewed as [slots * heads, head_dim], head by head."""
        if heads not in self.rows:
            by_head = self.slots[:, None, :] * heads + torch.arange(heads)[None, :, None]
            self.rows[heads] = by_head.reshape(-1)
        return self.rows[heads]


def split(new: list[int], total: list[int]) -> Iterator[list[int]]:
    """Sequence numbers by bucket: neighbours in length, by new tokens first and whole length second."""

    def near(short: int, long: int) -> bool:
        return long <= max(short * PADDING_FACTOR, short + PADDING_TOKENS)

    bucket: list[int] = []
    low_new = low_total = high_total = 0
    for i in sorted(range(len(new)), key=lambda i: (new[i], total[i])):
        low, high = min(low_total, total[i]), max(high_total, total[i])
        if bucket and not (new[i] <= low_new * PADDING_FACTOR and near(low, high)):
            yield bucket
            bucket = []
        if not bucket:
            low_new, low, high = new[i], total[i], total[i]
        low_total, high_total = low, high
        bucket.append(i)
    if bucket:
        yield bucket


def make_buckets(table: torch.Tensor, new: torch.Tensor, total: torch.Tensor) -> list[Bucket]:
    """Buckets for sequences with `new` query tokens at the end of `total` tokens, stored in the slots of `table`.

    table [sequences, >= longest] int; new, total [sequences].
    """
    first = torch.cumsum(new, 0) - new  # a sequence's first row in the query tensor
    return [_bucket(table, first, new, total, torch.tensor(ids)) for ids in split(new.tolist(), total.tolist())]


def _bucket(
    table: torch.Tensor, first: torch.Tensor, new: torch.Tensor, total: torch.Tensor, ids: torch.Tensor
) -> Bucket:
    first, new, total = first[ids], new[ids], total[ids]
    query, key = torch.arange(int(new.max())), torch.arange(int(total.max()))
    real = query < new[:, None]  # [sequences, most_new]
    tokens = first[:, None] + torch.minimum(query, new[:, None] - 1)
    slots = table[ids][:, : len(key)].long()
    slots = torch.where(key < total[:, None], slots, slots[:, :1])
    position = (total - new)[:, None] + query  # of each query; padded queries see more than they should, unused
    mask = torch.zeros(len(ids), 1, len(query), len(key))
    visible = (key <= position[:, :, None]) & (key < total[:, None, None])
    mask.masked_fill_(~visible[:, None], float("-inf"))
    return Bucket(tokens.reshape(-1), None if bool(real.all()) else real.reshape(-1), slots, mask, {})


class BatchedAttention(TorchNativeAttnBackend):  # type: ignore[misc]
    """SGLang's torch_native backend with its two inner loops replaced."""

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Once per step, for all layers."""
        total = forward_batch.seq_lens
        decoding = forward_batch.forward_mode.is_decode()
        new = torch.ones_like(total) if decoding else forward_batch.extend_seq_lens
        table = forward_batch.req_to_token_pool.req_to_token[forward_batch.req_pool_indices, : int(total.max())]
        self.buckets = make_buckets(table, new.long(), total.long())

    def _run_sdpa_forward_decode(
        self,
        query: torch.Tensor,  # [tokens, heads, head_dim]
        output: torch.Tensor,  # [tokens, heads, head_dim]
        k_cache: torch.Tensor,  # [slots, kv_heads, head_dim]
        v_cache: torch.Tensor,
        *_: Any,
        scaling: float | None = None,
        enable_gqa: bool = False,
        **__: Any,
    ) -> torch.Tensor:
        for bucket in self.buckets:
            rows = bucket.cache_rows(k_cache.shape[1])
            q = query[bucket.tokens].unflatten(0, (len(bucket.slots), -1)).transpose(1, 2)
            k, v = (_gather(cache, rows, len(bucket.slots)) for cache in (k_cache, v_cache))
            # [sequences, heads, most_new, head_dim]
            out = F.scaled_dot_product_attention(
                q, k, v, attn_mask=bucket.mask.to(q.dtype), scale=scaling, enable_gqa=enable_gqa
            )
            out = out.transpose(1, 2).flatten(0, 1)
            if bucket.real is None:
                output[bucket.tokens] = out
            else:
                output[bucket.tokens[bucket.real]] = out[bucket.real]
        return output

    def _run_sdpa_forward_extend(self, *args: Any, causal: bool = True, **options: Any) -> torch.Tensor:
        if not causal:
            raise NotImplementedError("encoder models are not served on a CPU")
        return self._run_sdpa_forward_decode(*args, **options)


def _gather(cache: torch.Tensor, rows: torch.Tensor, sequences: int) -> torch.Tensor:
    """[slots, heads, head_dim] -> contiguous [sequences, heads, longest, head_dim]."""
    heads, dim = cache.shape[1:]
    return cache.reshape(-1, dim).index_select(0, rows).view(sequences, heads, -1, dim)
