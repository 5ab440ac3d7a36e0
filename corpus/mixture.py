"""The training mixture: every source decontaminated, tokenised, written as a shard, and weighed.

Comes in: the mined pages and the sources of the profile. Goes out: `shards/<name>.bin/.idx` and `mixture.json`, the
contract with pretraining:

  {"sources": [{"name", "weight", "prefix": "shards/<name>", "documents", "tokens"}], "tokenizer": path, "eod": id}

Beside each shard lies `<prefix>.documents.jsonl`, a line for each of its documents in order: where the text came from.
"""

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from corpus.config import MINED, CorpusConfig, SourceConfig
from corpus.crawl import stop_if_asked
from corpus.decontaminate import Decontaminator
from corpus.texts import read_texts
from corpus.tokenize import ShardWriter, Tokenizer
from stage import Stage, UsageError, atomic_write

Contamination = dict[str, Any]
SHOWN_MATCHES = 20  # in the manifest; contaminated.jsonl has all


@dataclass(frozen=True)
class Document:
    """One text of a source, and what its line in the documents file says of its origin."""

    id: str
    text: str
    origin: dict[str, Any]


def write_mixture(
    stage: Stage, config: CorpusConfig, mined: Iterable[Document], check: Decontaminator, tokenizer: Tokenizer
) -> list[Contamination]:
    """Write all shards and mixture.json; the texts left out as contaminated, also in contaminated.jsonl."""
    contaminated: list[Contamination] = []
    sources = []
    for source in config.sources:
        documents = mined if source.name == MINED else _documents(stage, source)
        clean = _decontaminated(stage, source.name, documents, check, contaminated)
        sources.append(_write_shard(stage, source, clean, tokenizer))
        stop_if_asked(stage)
    lines = [json.dumps(c, ensure_ascii=False) + "\n" for c in contaminated]
    atomic_write(stage.work / "contaminated.jsonl", "".join(lines))
    stage.metrics["corpus_tokens"] = next(s["tokens"] for s in sources if s["name"] == MINED)
    stage.metrics["contaminated"] = {
        "documents": len(contaminated),
        "by_benchmark": dict(Counter(c["benchmark"] for c in contaminated)),
        "first": contaminated[:SHOWN_MATCHES],
    }
    stage.metrics["sources"] = {s["name"]: {"documents": s["documents"], "tokens": s["tokens"]} for s in sources}
    mixture = {"sources": sources, "tokenizer": str(tokenizer.folder), "eod": tokenizer.eod}
    atomic_write(stage.work / "mixture.json", json.dumps(mixture, indent=2) + "\n")
    return contaminated


def _documents(stage: Stage, source: SourceConfig) -> Iterator[Document]:
    def drop(reason: str) -> None:
        stage.counts["in"] += 1
        stage.drop(f"{source.name}: {reason}")

    assert source.path is not None  # checked by SourceConfig
    for number, text in enumerate(read_texts(source.path, source.text_key, drop)):
        stage.counts["in"] += 1
        yield Document(str(number), text, {"path": source.path})


def _decontaminated(
    stage: Stage, source: str, documents: Iterable[Document], check: Decontaminator, found: list[Contamination]
) -> Iterator[Document]:
    for document in documents:
        match = check.find(document.text)
        if match is None:
            yield document
        else:
            stage.drop(f"{source}: contaminated by {match.benchmark}")
            origin: dict[str, Any] = {k: v for k, v in document.origin.items() if k in ("url", "path")}
            found.append({"source": source, "document": document.id, **origin, **asdict(match)})


def _write_shard(
    stage: Stage, source: SourceConfig, documents: Iterable[Document], tokenizer: Tokenizer
) -> dict[str, Any]:
    prefix = f"shards/{source.name}"
    waiting: deque[Document] = deque()  # read, and with the tokenizer, which takes many at once

    def texts() -> Iterator[str]:
        for document in documents:
            waiting.append(document)
            yield document.text

    with (
        stage.progress(f"tokenise {source.name}", None, "documents") as progress,
        ShardWriter(stage.work / prefix, tokenizer.vocab_size) as shard,
        open(stage.work / f"{prefix}.documents.jsonl", "w", encoding="utf-8") as lines,
    ):
        for ids in tokenizer.encode(texts()):
            shard.add([*ids, tokenizer.eod])
            document = waiting.popleft()
            line = {"id": document.id, "tokens": len(ids) + 1, **document.origin}
            lines.write(json.dumps(line, ensure_ascii=False) + "\n")
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
