"""Token shards: megatron-core's own IndexedDataset reads back exactly what was written."""

import json
from pathlib import Path

import numpy as np
import pytest

from corpus.tokenize import ShardWriter, Tokenizer
from stage import UsageError

DOCUMENTS = [[1, 2, 3], [4], [], [70, 80, 90, 100, 7], [65000]]


@pytest.mark.parametrize("vocab_size", [1024, 65499, 65500, 128_000])
def test_megatron_reads_what_was_written(tmp_path: Path, vocab_size: int) -> None:
    from megatron.core.datasets.indexed_dataset import DType, IndexedDataset

    documents = [[t % vocab_size for t in d] for d in DOCUMENTS]
    with ShardWriter(tmp_path / "s" / "shard", vocab_size) as writer:
        for document in documents:
            writer.add(document)
        assert (writer.documents, writer.tokens) == (5, sum(map(len, documents)))
    dataset = IndexedDataset(str(tmp_path / "s" / "shard"))
    assert dataset.index.dtype == DType.optimal_dtype(vocab_size)
    assert [dataset[i].tolist() for i in range(len(dataset))] == documents
    assert dataset.document_indices.tolist() == list(range(6))
    assert dataset.get(3, offset=1, length=2).tolist() == documents[3][1:3]


def test_megatron_writes_the_same_bytes(tmp_path: Path) -> None:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.uint16)
    with ShardWriter(tmp_path / "ours", 65499) as writer:
        for document in DOCUMENTS:
            writer.add(document)
            builder.add_document(torch.tensor(document, dtype=torch.int64), [len(document)])
    builder.finalize(str(tmp_path / "theirs.idx"))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"ours{suffix}").read_bytes() == (tmp_path / f"theirs{suffix}").read_bytes()


def test_a_failed_write_leaves_no_index(tmp_path: Path) -> None:
    (tmp_path / "shard.idx").write_bytes(b"old")
    with pytest.raises(RuntimeError), ShardWriter(tmp_path / "shard", 1024) as writer:
        writer.add([1, 2])
        raise RuntimeError
    assert not (tmp_path / "shard.idx").exists()


def test_tokens_are_those_of_transformers(repository: Path) -> None:
    from transformers import AutoTokenizer

    folder = repository / "examples/tokenizer"
    texts = ["Let $x^2 = 16$.", "一共买了多少?", "  def f():\n    return 1"]
    ours, theirs = Tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert list(ours.encode(texts)) == [theirs(t, add_special_tokens=False).input_ids for t in texts]
    assert (ours.eod, ours.vocab_size) == (theirs.eos_token_id, len(theirs))


def test_a_folder_without_a_usable_tokenizer_is_an_error(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no tokenizer\.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((repository / "examples/tokenizer/tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<nowhere>"}))
    with pytest.raises(UsageError, match="names no eos_token"):
        Tokenizer(tmp_path)
