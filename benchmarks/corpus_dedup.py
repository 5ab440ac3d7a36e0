"""Near-duplicate removal: mathmill's MinHash-LSH against datatrove's, on the same pages, in the same run, on one core.

    python benchmarks/corpus_dedup.py [--input 'crawl/*.warc.gz'] [--rounds 3] [--every 8]

Both get the extracted texts in memory and give the set of pages to remove, with 16 bands of 8 rows over word 5-grams.
datatrove 0.9 runs its own four steps (signature, buckets, cluster, filter) without an executor, so that only the work
is timed; once as it comes, with spaCy's English tokenizer, and once with its whitespace tokenizer. It takes every two
pages that agree in a band for duplicates, so it removes more.
"""

import statistics
import tempfile
import time
from collections.abc import Callable

import xxhash
from corpus_pages import texts_and_rounds
from datatrove.data import Document
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.utils.hashing import HashConfig
from datatrove.utils.word_tokenizers import WhitespaceTokenizer

from corpus.config import DedupConfig
from corpus.dedup import near_duplicates, signatures
from corpus.normalize import is_chinese

Texts = list[str]


def mathmill(texts: Texts) -> int:
    """Pages removed."""
    import numpy as np

    config = DedupConfig()
    starts = range(0, len(texts), 64)
    signed = np.concatenate([signatures([(t, is_chinese(t)) for t in texts[i : i + 64]], config) for i in starts])
    return len(near_duplicates(signed, range(len(texts)), config))


def datatrove(texts: Texts, whitespace: bool = False) -> int:
    """Pages removed."""
    config = MinhashConfig(n_grams=5, num_buckets=16, hashes_per_bucket=8, hash_config=HashConfig(precision=64))

    def documents() -> "list[Document]":
        return [Document(text=text, id=str(i)) for i, text in enumerate(texts)]

    with tempfile.TemporaryDirectory() as folder:
        signature = MinhashDedupSignature(f"{folder}/signatures", config)
        # xxhash 4 refuses the str that datatrove 0.9 gives it
        signature._hash_func = lambda data: xxhash.xxh64_intdigest(data.encode())
        if whitespace:
            signature.word_tokenizer = WhitespaceTokenizer()
        signature.run(documents())
        for bucket in range(config.num_buckets):
            MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config).run(
                None, bucket, config.num_buckets
            )
        MinhashDedupCluster(f"{folder}/buckets", f"{folder}/remove", config=config).run(None, 0, 1)
        return len(texts) - sum(1 for _ in MinhashDedupFilter(f"{folder}/remove").run(documents()))


def main() -> None:
    texts, rounds = texts_and_rounds(__doc__, every=8)
    ways: dict[str, Callable[[Texts], int]] = {
        "mathmill": mathmill,
        "datatrove": datatrove,
        "datatrove, whitespace": lambda t: datatrove(t, whitespace=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(texts[:20])  # imports and tables
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.process_time()
            removed = way(texts)
            seconds[name].append(time.process_time() - began)
            print(f"{name}: {removed} removed, {seconds[name][-1]:.2f} CPU seconds", flush=True)
    print("\n| near-duplicates | pages/s | mathmill is faster by |\n|---|---|---|")
    for name in ways:
        rate = len(texts) / statistics.median(seconds[name])
        ratios = [b / a for a, b in zip(seconds["mathmill"], seconds[name], strict=True)]
        print(f"| {name} | {rate:.0f} | {statistics.median(ratios):.1f} |")


if __name__ == "__main__":
    main()
