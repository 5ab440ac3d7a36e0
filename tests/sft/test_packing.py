"""Packing: what a packed sequence holds, and that the stream is a function of the seed."""

import torch

from sft.formats import Example
from sft.packing import PackedStream

EXAMPLES = [
    Example(list(range(10 * n, 10 * n + length)), answer_start=2) for n, length in enumerate([5, 4, 6, 3, 7], 1)
]


def test_documents_are_contiguous_and_numbered_and_padding_is_apart() -> None:
    stream = PackedStream(EXAMPLES, seq_length=12, pad_id=0, seed=3)
    packed = stream[0]
    ids = packed["document_ids"]
    assert ids.shape == (12,)
    assert (ids.diff()[ids[1:] >= 0] >= 0).all()
    assert (packed["tokens"][ids == -1] == 0).all()


def test_every_example_comes_once_an_epoch() -> None:
    stream = PackedStream(EXAMPLES, seq_length=12, pad_id=0, seed=3)
    stream[0]
    seen = [n for sequence in stream._sequences for n in sequence]
    assert sorted(seen) == list(range(len(EXAMPLES)))


def test_the_loss_is_on_the_answer_and_never_across_documents() -> None:
    packed = PackedStream(EXAMPLES, seq_length=12, pad_id=0, seed=3)[0]
    for document in range(int(packed["document_ids"].max()) + 1):
        at = torch.nonzero(packed["document_ids"] == document).flatten()
        tokens, mask = packed["tokens"][at], packed["loss_mask"][at]
        # answer_start 2: the token at 1 predicts the first answer token; the last token predicts nothing
        assert mask.tolist() == [0.0] + [1.0] * (len(at) - 2) + [0.0]
        assert packed["labels"][at][:-1].tolist() == tokens[1:].tolist()
    assert packed["loss_mask"][packed["document_ids"] == -1].sum() == 0


def test_the_stream_is_a_function_of_seed_and_index() -> None:
    a, b = (PackedStream(EXAMPLES, 12, 0, seed=5) for _ in range(2))
    late_first = b[9]
    assert all(torch.equal(a[9][k], late_first[k]) for k in late_first)
    assert any(not torch.equal(PackedStream(EXAMPLES, 12, 0, seed=6)[i]["tokens"], a[i]["tokens"]) for i in range(3))
