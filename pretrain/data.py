"""The mixture of token shards as megatron's BlendedDataset: which sample comes when is a function of the seed alone."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import _IndexReader

from pretrain.engine import Batch
from stage import UsageError


@dataclass(frozen=True)
class TokenizerFacts:
    """What GPTDataset asks of a tokenizer."""

    vocab_size: int
    eod: int
    pad: int

    @property
    def unique_identifiers(self) -> OrderedDict[str, Any]:
        """Part of the hash that names megatron's index cache."""
        return OrderedDict(vocab_size=self.vocab_size, eod=self.eod)


class Mixture:
    """Samples of `seq_length` tokens drawn from the corpus stage's sources by weight.

    After any number of samples each source has had its share, to within one; inside a source, documents and samples are
    in an order that the seed gives. Raises UsageError when a shard of mixture.json is missing, torn or no shard.
    """

    def __init__(self, corpus: Path, vocab_size: int, seq_length: int, samples: int, seed: int, cache: Path) -> None:
        mixture = json.loads((corpus / "mixture.json").read_text())
        sources = [s for s in mixture["sources"] if s["weight"] > 0]
        for source in sources:
            _check_shard(corpus / source["prefix"])
        config = GPTDatasetConfig(
            random_seed=seed,
            sequence_length=seq_length,
            blend=([str(corpus / s["prefix"]) for s in sources], [s["weight"] for s in sources]),
            split="1,0,0",
            path_to_cache=str(cache),
            tokenizer=TokenizerFacts(vocab_size, mixture["eod"], pad=-1),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
        )
        builder = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config)
        self.dataset = builder.build()[0]
        self.eod = int(mixture["eod"])

    def batch(self, indices: Sequence[int]) -> Batch:
        """tokens and labels [len(indices), s] int64, loss_mask [len(indices), s] fp32."""
        rows = [self.dataset[i] for i in indices]
        return {key: torch.stack([row[key] for row in rows]) for key in ("tokens", "labels", "loss_mask")}


def _check_shard(prefix: Path) -> None:
    """megatron maps shards into memory unchecked: a torn one would fail at whichever step first reads its end."""
    tokens, index = Path(f"{prefix}.bin"), Path(f"{prefix}.idx")
    for path in (tokens, index):
        if not path.is_file():
            raise UsageError(f"{path} does not exist; run the stage corpus again: --force corpus")
    try:
        read = _IndexReader(str(index), multimodal=False)
        expected = int(read.sequence_lengths.sum(dtype="int64")) * read.dtype_size
    except Exception as error:
        raise UsageError(f"{index} is not an index of megatron's ({error}); --force corpus makes it anew") from error
    if tokens.stat().st_size != expected:
        raise UsageError(
            f"{tokens} has {tokens.stat().st_size} bytes, its index says {expected}; --force corpus makes it anew"
        )
