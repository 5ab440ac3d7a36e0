"""The mixture of sources: shares by weight at every point of the run, samples that are a function of the seed."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from corpus.tokenize import ShardWriter
from pretrain.data import Mixture

WEIGHTS = {"pages": 0.56, "code": 0.34, "papers": 0.10}
SEQ, SAMPLES = 16, 200


@pytest.fixture(scope="module", autouse=True)
def world_of_one() -> Iterator[None]:
    """megatron builds its index on rank 0 while the others wait."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sources; the tokens of source n lie in 32 n + 1 … 32 n + 31, so that a sample shows where it is from."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(1)
    for number, name in enumerate(WEIGHTS):
        with ShardWriter(folder / "shards" / name, vocab_size=96) as writer:
            for _ in range(40):
                writer.add([*(32 * number + rng.integers(1, 32, 50)).tolist(), 0])
    sources = [{"name": n, "weight": w, "prefix": f"shards/{n}"} for n, w in WEIGHTS.items()]
    sources.append({"name": "left out", "weight": 0.0, "prefix": "shards/nothing"})
    (folder / "mixture.json").write_text(json.dumps({"eod": 0, "sources": sources}))
    return folder


def mixture(corpus: Path, seed: int, cache: str = "cache") -> Mixture:
    return Mixture(corpus, vocab_size=96, seq_length=SEQ, samples=SAMPLES, seed=seed, cache=corpus / cache)


def test_each_source_has_its_share_after_any_number_of_samples(corpus: Path) -> None:
    tokens = mixture(corpus, seed=1).batch(range(SAMPLES))["tokens"]
    source = tokens.max(dim=1).values.div(32, rounding_mode="floor").numpy()
    counts = np.cumsum([source == n for n in range(3)], axis=1)
    expected = np.outer(list(WEIGHTS.values()), np.arange(1, SAMPLES + 1))
    assert np.abs(counts - expected).max() <= 1


def test_labels_are_the_next_tokens_and_all_of_them_count(corpus: Path) -> None:
    batch = mixture(corpus, seed=1).batch([0, 7, 199])
    assert torch.equal(batch["labels"][:, :-1], batch["tokens"][:, 1:])
    assert (batch["loss_mask"] == 1).all()


def test_a_sample_is_a_function_of_its_number_and_the_seed(corpus: Path) -> None:
    first, again, other = mixture(corpus, 1), mixture(corpus, 1, "another cache"), mixture(corpus, 2)
    late = again.batch(range(150, 160))["tokens"]  # a resumed run starts anywhere
    assert torch.equal(first.batch(range(150, 160))["tokens"], late)
    assert not torch.equal(other.batch(range(150, 160))["tokens"], late)
