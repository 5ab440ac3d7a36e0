"""On real pages: discovered domains, annotated by a person, find mathematics that the classifier alone does not.

Crawl: documentation without mathematics, and every fifth mathematical page of Sage, GAP, SymPy and other sites. The
seed knows four other sites. Known pages, kept out of training: every second mathematical page of the crawl.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fastwarc.warc import ArchiveIterator, WarcRecordType

from corpus.config import CorpusConfig
from corpus.crawl import extract_pages
from corpus.dedup import canonical_url, domain_of
from corpus.merge import read_crawl
from corpus.pages import PageStore
from corpus.rounds import Miner
from corpus.tokenize import Tokenizer
from stage import Stage

SEED_SITES = ("docs.scipy.org", "eigen.tuxfamily.org", "flintlib.org", "mpmath.org")
BEST = 150  # about as many pages as are mathematical
ANNOTATED = ("doc.sagemath.org", "docs.gap-system.org")


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(URL, compressed bytes) of every response record of a .warc.gz."""
    data = archive.read_bytes()
    with open(archive, "rb") as f:
        found = [(r.stream_pos, r) for r in ArchiveIterator(f, record_types=WarcRecordType.any_type, parse_http=False)]
        heads = [(at, r.headers.get("WARC-Target-URI"), r.record_type) for at, r in found]
    ends = [at for at, _, _ in heads[1:]] + [len(data)]
    for (start, url, kind), end in zip(heads, ends, strict=True):
        if kind == WarcRecordType.response:
            yield url, data[start:end]


@pytest.fixture
def profile(tiny_profile: dict[str, Any], shared_data: Path, tmp_path: Path) -> dict[str, Any]:
    maths = list(members(shared_data / "warc/docs-math.warc.gz"))
    other = [data for _, data in members(shared_data / "warc/docs-other.warc.gz")]
    seed = [data for url, data in maths if domain_of(canonical_url(url)) in SEED_SITES][::6]
    crawl = [(url, data) for url, data in maths if domain_of(canonical_url(url)) not in SEED_SITES][::5]
    (tmp_path / "seed.warc.gz").write_bytes(b"".join(seed))
    (tmp_path / "crawl.warc.gz").write_bytes(b"".join([*(data for _, data in crawl), *other]))
    (tmp_path / "known.txt").write_text("\n".join(url for url, _ in crawl[::2]))
    annotations = [{"domain": domain, "path": "/", "keep": True} for domain in ANNOTATED]
    (tmp_path / "annotations.yaml").write_text(yaml.safe_dump(annotations))
    tiny_profile["seed"] = 1234
    corpus = tiny_profile["corpus"]
    corpus |= {"inputs": [str(tmp_path / "crawl.warc.gz")], "seed": {"path": str(tmp_path / "seed.warc.gz")}}
    corpus["classifier"] |= {"epochs": 40, "max_negatives": 250}
    corpus["rounds"] = {
        "max_rounds": 3,
        "token_budgets": [300_000, 500_000, 700_000],
        "known_pages": str(tmp_path / "known.txt"),
        "domain_min_pages": 4,
        "annotations": str(tmp_path / "annotations.yaml"),
    }
    return tiny_profile


def test_discovery_raises_the_recall_of_mathematics_on_sites_the_seed_does_not_know(
    profile: dict[str, Any], make_run: Callable[..., Path]
) -> None:
    rounds, found = {}, {}
    run = make_run(profile)
    for discovery in ("off", "annotations"):
        stage = Stage("corpus", run)
        section = {**profile["corpus"], "rounds": {**profile["corpus"]["rounds"], "discovery": discovery}}
        config = CorpusConfig.model_validate(section)
        seed = [text for _, text in extract_pages(config.seed.path, config.read, lambda reason: None)]
        with PageStore(stage.work / "pages.jsonl") as store:
            crawl, _ = read_crawl(stage, config, store, 1)  # the second time it is read already
            miner = Miner(stage, config, seed, crawl, Tokenizer(profile["tokenizer"]))
            best = np.argsort(-miner.run().scores[-1], kind="stable")[:BEST]
        rounds[discovery] = stage.metrics["rounds"]
        found[discovery] = len(miner.known & set(best.tolist())) / len(miner.known)
    off, on = rounds["off"], rounds["annotations"]
    assert on[0]["recall"] == off[0]["recall"]  # the first round knows the seed only
    assert all(r["seed_pages_added"] == 0 for r in off)
    assert set(ANNOTATED) & {domain for r in on for domain in r["new_domains"]}
    assert on[-1]["recall"] > off[-1]["recall"] + 0.02  # within the same budget of tokens
    assert found["annotations"] > found["off"] + 0.04  # among as many pages, as the classifier ranks them
