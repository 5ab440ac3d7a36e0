"""Checkpoints and shards that are not what the profile says: one line, before the first step."""

import json
import os
from pathlib import Path

import pytest
import torch

from corpus.tokenize import ShardWriter
from pretrain import hf
from pretrain.config import ModelConfig
from pretrain.data import Mixture
from stage import UsageError

MODEL = ModelConfig(num_layers=2, hidden_size=32, num_attention_heads=4, num_query_groups=2, vocab_size=96)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_theta", 100000.0),
        ("rms_norm_eps", 1e-5),
        ("num_attention_heads", 8),
        ("rope_scaling", {"factor": 4.0, "type": "linear"}),
        ("tie_word_embeddings", True),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_where_no_shape_tells(tmp_path: Path, key: str, value: object) -> None:
    config = hf.config_dict(MODEL, torch.float32, eos_token_id=0) | {key: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=rf"config.json: {key} is .*, the profile's model has "):
        hf.load(None, MODEL, tmp_path)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config.json; expected a local Hugging Face checkpoint"):
        hf.load(None, MODEL, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(hf.config_dict(MODEL, torch.float32, eos_token_id=0)))
    with pytest.raises(UsageError, match=r"no \*.safetensors"):
        hf.load(None, MODEL, tmp_path)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A mixture of one shard of ten documents."""
    with ShardWriter(tmp_path / "shards" / "own", vocab_size=96) as writer:
        for n in range(10):
            writer.add([n] * 30)
    source = {"name": "own", "weight": 1.0, "prefix": "shards/own"}
    (tmp_path / "mixture.json").write_text(json.dumps({"eod": 0, "sources": [source]}))
    return tmp_path


def mixture(corpus: Path) -> Mixture:
    return Mixture(corpus, vocab_size=96, seq_length=16, samples=8, seed=1, cache=corpus / "cache")


def test_a_torn_shard_is_refused_before_training(corpus: Path) -> None:
    shard = corpus / "shards" / "own.bin"
    os.truncate(shard, shard.stat().st_size - 2)
    with pytest.raises(UsageError, match=r"own.bin has 598 bytes, its index says 600"):
        mixture(corpus)


def test_an_index_that_is_none_and_a_missing_shard_are_refused(corpus: Path) -> None:
    (corpus / "shards" / "own.idx").write_bytes(b"nonsense")
    with pytest.raises(UsageError, match=r"own.idx is not an index of megatron's"):
        mixture(corpus)
    (corpus / "shards" / "own.bin").unlink()
    with pytest.raises(UsageError, match=r"own.bin does not exist"):
        mixture(corpus)
