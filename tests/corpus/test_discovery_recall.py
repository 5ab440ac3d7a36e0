"""On real pages: domain discovery finds mathematics that the classifier alone does not.

Crawl: every third record of documentation with mathematics (SciPy, Sage, GAP, Eigen, …) and without. The seed knows one
site, SymPy. Known pages, kept out of training: every other mathematical page of the sites that the seed does not know.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from corpus.config import CorpusConfig
from corpus.crawl import extract_pages
from corpus.dedup import domain_of
from corpus.merge import read_crawl
from corpus.pages import PageStore
from corpus.rounds import Miner
from corpus.tokenize import Tokenizer
from stage import Stage

SEED_SITE = "docs.sympy.org"


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
    maths = list(members(shared_data / "warc/docs-math.warc.gz"))[::3]
    other = list(members(shared_data / "warc/docs-other.warc.gz"))[::3]
    site = {url: domain_of(url.split("//")[1]) for url, _ in maths}
    seed = tmp_path / "seed.warc.gz"
    seed.write_bytes(b"".join(data for url, data in maths if site[url] == SEED_SITE))
    crawl = tmp_path / "crawl.warc.gz"
    crawl.write_bytes(b"".join(data for _, data in [*maths, *other]))
    known = [url for url, _ in maths if site[url] != SEED_SITE][::2]
    (tmp_path / "known.txt").write_text("\n".join(known))
    corpus = tiny_profile["corpus"]
    corpus |= {"inputs": [str(crawl)], "seed": {"path": str(seed)}}
    corpus["classifier"] |= {"epochs": 25, "max_negatives": 300}
    corpus["rounds"] = {
        "max_rounds": 3,
        "token_budgets": [400_000, 800_000, 1_200_000],
        "known_pages": str(tmp_path / "known.txt"),
        "domain_min_pages": 5,
    }
    return tiny_profile


def test_discovery_raises_the_recall_of_mathematics_on_sites_the_seed_does_not_know(
    profile: dict[str, Any], make_run: Callable[..., Path], repository: Path
) -> None:
    recall, domains = {}, {}
    run = make_run(profile)
    for discovery in ("off", "automatic"):
        stage = Stage("corpus", run)
        section = {**profile["corpus"], "rounds": {**profile["corpus"]["rounds"], "discovery": discovery}}
        config = CorpusConfig.model_validate(section)
        seed = [text for _, text in extract_pages(config.seed.path, config.read, lambda reason: None)]
        with PageStore(stage.work / "pages.jsonl") as store:
            crawl, _ = read_crawl(stage, config, store, 1)  # the second time it is read already
            Miner(stage, config, seed, crawl, Tokenizer(profile["tokenizer"])).run()
        rounds = stage.metrics["rounds"]
        recall[discovery] = [r["recall"] for r in rounds]
        domains[discovery] = {d for r in rounds for d in r["new_domains"]}
        print(json.dumps({k: [r[k] for r in rounds] for k in ("pages", "recall", "seed_pages_added")}), domains)
    assert recall["automatic"][0] == recall["off"][0]  # the first round knows the seed only
    assert recall["automatic"][-1] > recall["off"][-1] + 0.1
    assert {"doc.sagemath.org", "docs.scipy.org"} <= domains["automatic"]
