"""The training mixture: every source decontaminated, tokenised, written as a shard, and weighed.

Comes in: the mined pages and the sources of the profile. Goes out: `shards/<name>.bin/.idx` and `mixture.json`, the
contract with pretraining:

  {"sources": [{"name", "weight", "prefix": "shards/<name>", "documents", "tokens"}], "tokenizer": path, "eod": id}
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from corpus.config import MINED, CorpusConfig, SourceConfig
from corpus.crawl import stop_if_asked
from corpus.decontaminate import Decontaminator
from corpus.texts import read_texts
from corpus.tokenize import ShardWriter, Tokenizer
from stage import Stage, UsageError, atomic_write

Document = tuple[str, str]  # (id, text)


def write_mixture(
    stage: Stage, config: CorpusConfig, mined: Iterable[Document], check: Decontaminator, tokenizer: Tokenizer
) -> None:
    """Write all shards and mixture.json; counts and matches go to the stage's metrics and contaminated.jsonl."""
    contaminated: list[dict[str, Any]] = []
    sources = []
    for source in config.sources:
        documents = mined if source.name == MINED else _documents(stage, source)
        clean = _decontaminated(stage, source.name, documents, check, contaminated)
        sources.append(_write_shard(stage, source, clean, tokenizer))
        stop_if_asked(stage)
    lines = [json.dumps(c, ensure_ascii=False) + "\n" for c in contaminated]
    atomic_write(stage.work / "contaminated.jsonl", "".join(lines))
    stage.metrics["corpus_tokens"] = next(s["tokens"] for s in sources if s["name"] == MINED)
    stage.metrics["contaminated"] = len(contaminated)
    stage.metrics["sources"] = {s["name"]: {"documents": s["documents"], "tokens": s["tokens"]} for s in sources}
    mixture = {"sources": sources, "tokenizer": str(tokenizer.folder), "eod": tokenizer.eod}
    atomic_write(stage.work / "mixture.json", json.dumps(mixture, indent=2) + "\n")


def _documents(stage: Stage, source: SourceConfig) -> Iterator[Document]:
    def drop(reason: str) -> None:
        stage.counts["in"] += 1
        stage.drop(f"{source.name}: {reason}")

    assert source.path is not None  # checked by SourceConfig
    for number, text in enumerate(read_texts(source.path, source.text_key, drop)):
        stage.counts["in"] += 1
        yield str(number), text


def _decontaminated(
    stage: Stage, source: str, documents: Iterable[Document], check: Decontaminator, found: list[dict[str, Any]]
) -> Iterator[str]:
    for name, text in documents:
        match = check.find(text)
        if match is None:
            yield text
        else:
            stage.drop(f"{source}: contaminated by {match.benchmark}")
            found.append({"source": source, "document": name, **asdict(match)})


def _write_shard(stage: Stage, source: SourceConfig, texts: Iterable[str], tokenizer: Tokenizer) -> dict[str, Any]:
    prefix = f"shards/{source.name}"
    with (
        stage.progress(f"tokenise {source.name}", None, "documents") as progress,
        ShardWriter(stage.work / prefix, tokenizer.vocab_size) as shard,
    ):
        for ids in tokenizer.encode(texts):
            shard.add([*ids, tokenizer.eod])
            progress.update(1)
        if not shard.documents:
            raise UsageError(f"corpus: source '{source.name}' has no document left to train on")
        stage.counts["out"] += shard.documents
        return {
            "name": source.name,
            "weight": source.weight,
            "prefix": prefix,
            "documents": shard.documents,
            "tokens": shard.tokens,
        }
