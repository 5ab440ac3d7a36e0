"""Combinations of settings that no stage could run with, found before anything starts.

Each section checks itself (pretrain/config.py and its like); what is here needs two sections at once. A finding is one
line: the key, what it got, what would do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config import Profile

TRAINING_STAGES = ("pretrain", "sft", "reward", "grpo")


def impossible(profile: Profile) -> list[str]:
    """What cannot work in a profile whose sections are valid, most basic first."""
    return [*_tokenizer(profile), *(line for stage in TRAINING_STAGES for line in _training(profile, stage))]


def _training(profile: Profile, stage: str) -> Iterator[str]:
    model, section = profile.model, profile.training(stage)
    assert section is not None
    parallel = section.parallel
    tp, pp = parallel.tensor_model_parallel_size, parallel.pipeline_model_parallel_size
    for what in ("num_attention_heads", "num_query_groups", "ffn_hidden_size", "vocab_size"):
        size = getattr(model, what)
        if size % tp:
            padded = f"pad it to {-(-size // tp) * tp}, or " if what == "vocab_size" else ""
            yield (
                f"{stage}.parallel.tensor_model_parallel_size: {tp} does not divide model.{what} {size}; "
                f"{padded}use {_divisors(size, parallel.world_size)}"
            )
    if model.num_layers % pp:
        yield (
            f"{stage}.parallel.pipeline_model_parallel_size: {pp} does not divide model.num_layers {model.num_layers}; "
            f"use {_divisors(model.num_layers, parallel.world_size)}"
        )
    if section.seq_length > model.max_position_embeddings:
        yield (
            f"{stage}.seq_length: {section.seq_length} is more than model.max_position_embeddings "
            f"{model.max_position_embeddings}"
        )
    if parallel.sequence_parallel and section.seq_length % tp:
        yield (
            f"{stage}.seq_length: {section.seq_length} is not a multiple of tensor_model_parallel_size {tp}, "
            "which sequence_parallel needs"
        )
    new_tokens = getattr(section, "max_new_tokens", 0)
    if new_tokens >= section.seq_length:
        yield (
            f"{stage}.max_new_tokens: {new_tokens} leaves no room for the question in {stage}.seq_length "
            f"{section.seq_length}"
        )
    # SGLang wants prompt and new tokens to stay below its context; the reward stage's prompts end in half a solution
    context = profile.server.context_length or model.max_position_embeddings
    room = context - max(new_tokens * (stage == "reward"), 1)
    if new_tokens and section.seq_length > room:
        yield (
            f"{stage}.seq_length: {section.seq_length} leaves the rollout server, whose context is {context}, no room; "
            f"use at most {room}"
        )


def _divisors(size: int, limit: int) -> str:
    return ", ".join(str(n) for n in range(1, min(size, limit) + 1) if size % n == 0)


def _tokenizer(profile: Profile) -> Iterator[str]:
    """A missing tokenizer is for the plan to report; one that is there must be readable and fit the model."""
    path = Path(profile.tokenizer) / "tokenizer.json"
    if not path.is_file():
        return
    try:
        tokenizer = json.loads(path.read_text())
        ids = [*_ids(tokenizer["model"]["vocab"]), *(token["id"] for token in tokenizer["added_tokens"])]
    except (ValueError, KeyError, TypeError) as error:
        yield f"tokenizer: {path} is not a Hugging Face tokenizer ({error!r})"
        return
    if max(ids) >= profile.model.vocab_size:
        yield (
            f"model.vocab_size: {profile.model.vocab_size} is too small for tokenizer {profile.tokenizer}, "
            f"whose highest token id is {max(ids)}; use at least {max(ids) + 1}"
        )


def _ids(vocab: dict[str, int] | list[object]) -> Iterator[int]:
    """Token ids of a BPE or WordPiece vocabulary (token -> id) or a Unigram one (a list)."""
    yield from vocab.values() if isinstance(vocab, dict) else range(len(vocab))
