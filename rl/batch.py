"""Outputs of a group of prompts as padded tensors for the engine."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pretrain.engine import Batch

PAD_TO = 16  # sequence lengths are rounded up to it, so that shapes repeat


@dataclass(frozen=True)
class Output:
    """One sampled output o_i with what the objective needs of it."""

    prompt_ids: list[int]
    output_ids: list[int]
    logprobs: list[float]  # of the policy that sampled it: log pi_old
    advantage: float


def collate(outputs: Sequence[Output], length: int, pad_id: int) -> Batch:
    """tokens, labels [n, length] int64; mask, old_logprobs [n, length] fp32; advantages [n] fp32.

    Position t holds what concerns the prediction of token t + 1; the mask is 1 where that token is the output's.
    """
    n = len(outputs)
    tokens, labels = torch.full((n, length), pad_id), torch.full((n, length), pad_id)
    mask, old = torch.zeros(n, length), torch.zeros(n, length)
    for row, o in enumerate(outputs):
        ids = torch.tensor([*o.prompt_ids, *o.output_ids])
        first, last = len(o.prompt_ids) - 1, len(ids) - 1
        tokens[row, : len(ids)] = ids
        labels[row, :last] = ids[1:]
        mask[row, first:last] = 1.0
        old[row, first:last] = torch.tensor(o.logprobs)
    advantages = torch.tensor([o.advantage for o in outputs])
    return {"tokens": tokens, "labels": labels, "mask": mask, "old_logprobs": old, "advantages": advantages}


def padded_length(sequences: Sequence[int]) -> int:
    """The length that a batch of sequences of these lengths is padded to."""
    return -(-max(sequences) // PAD_TO) * PAD_TO


def micro_batches(outputs: Sequence[Output], micro_batch_size: int, rank: int, ranks: int, pad_id: int) -> list[Batch]:
    """The share of data-parallel rank `rank`: every `ranks`-th micro-batch, all padded to one length."""
    length = padded_length([len(o.prompt_ids) + len(o.output_ids) for o in outputs])
    starts = range(rank * micro_batch_size, len(outputs), ranks * micro_batch_size)
    return [collate(outputs[s : s + micro_batch_size], length, pad_id) for s in starts]
