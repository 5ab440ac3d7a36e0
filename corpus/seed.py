"""The seed: texts known to be mathematical, the classifier's first positive examples.

Comes in: the file the profile names (JSONL, parquet, dataset folder, or a WARC). Goes out: at most `max_positives`
texts, a sample that depends on the texts and the profile's seed, not on their order.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterator

from corpus.config import CorpusConfig
from corpus.crawl import extract_pages
from corpus.texts import local_files, read_texts
from stage import Stage, UsageError

WARC = (".warc", ".warc.gz", ".wet", ".wet.gz")


def read_seed(stage: Stage, config: CorpusConfig) -> list[str]:
    """The seed texts; what was read and skipped goes to the metrics."""
    path, skipped = config.seed.path, Counter[str]()
    for file in local_files(path):
        stage.read_file(file)
    texts: Iterator[str]
    if path.endswith(WARC):
        texts = (text for _, text in extract_pages(path, config.read, lambda reason: skipped.update([reason])))
    else:
        texts = read_texts(path, config.seed.text_key, lambda reason: skipped.update([reason]))
    sample = heapq.nsmallest(config.classifier.max_positives, _ranked(texts, stage.profile["seed"]))
    if not sample:
        raise UsageError(f"corpus.seed: {path} holds no text (key '{config.seed.text_key}'); skipped {dict(skipped)}")
    stage.metrics["seed"] = {"texts": len(sample), "skipped": dict(skipped)}
    return [text for _, text in sample]


def rank(text: str, seed: int) -> bytes:
    """A pseudo-random rank of a text that depends on nothing but the text and the seed."""
    return hashlib.blake2b(text.encode(), digest_size=16, salt=seed.to_bytes(8, "little")).digest()


def _ranked(texts: Iterator[str], seed: int) -> Iterator[tuple[bytes, str]]:
    for text in texts:
        yield rank(text, seed), text
