"""Several examples in one sequence, none seeing another.

Every epoch is a new random order (seeded by epoch), filled into sequences first come, first served. Sequence number
`i` of the endless stream is a pure function of (examples, seq_length, seed, i): a resumed run sees what the
uninterrupted one would have seen.
"""

from collections.abc import Sequence

import numpy as np
import torch

from sft.formats import Example

Batch = dict[str, torch.Tensor]


class PackedStream:
    """An endless, indexable stream of packed sequences."""

    def __init__(self, examples: Sequence[Example], seq_length: int, pad_id: int, seed: int) -> None:
        if not examples:
            raise ValueError("no examples to pack")
        self.examples, self.seq_length, self.pad_id, self.seed = examples, seq_length, pad_id, seed
        self._sequences: list[list[int]] = []  # example numbers of each sequence
        self._epoch = 0

    def __getitem__(self, index: int) -> Batch:
        """tokens, labels, document_ids [s] int64 and loss_mask [s] fp32; padding has document number -1."""
        while index >= len(self._sequences):
            self._sequences += self._pack_epoch()
        return self._tensors(self._sequences[index])

    def batch(self, indices: Sequence[int]) -> Batch:
        """The sequences stacked: [len(indices), s]."""
        rows = [self[i] for i in indices]
        return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}

    def _pack_epoch(self) -> list[list[int]]:
        order = np.random.default_rng([self.seed, self._epoch]).permutation(len(self.examples))
        self._epoch += 1
        sequences: list[list[int]] = [[]]
        room = self.seq_length
        for number in order.tolist():
            needed = len(self.examples[number].tokens)
            if needed > room and sequences[-1]:
                sequences.append([])
                room = self.seq_length
            sequences[-1].append(number)
            room -= needed
        return sequences

    def _tensors(self, numbers: list[int]) -> Batch:
        s = self.seq_length
        tokens, labels = torch.full((s,), self.pad_id), torch.full((s,), self.pad_id)
        loss_mask, document_ids = torch.zeros(s), torch.full((s,), -1)
        at = 0
        for document, number in enumerate(numbers):
            example = self.examples[number]
            ids = torch.tensor(example.tokens[: s - at])
            end = at + len(ids)
            tokens[at:end] = ids
            labels[at : end - 1] = ids[1:]  # position t predicts token t + 1
            loss_mask[at + example.answer_start - 1 : end - 1] = 1.0
            document_ids[at:end] = document
            at = end
        return {"tokens": tokens, "labels": labels, "loss_mask": loss_mask, "document_ids": document_ids}
