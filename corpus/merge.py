"""What was read from the input files becomes one crawl without duplicates.

Comes in: the archives of the profile. Goes out: a Crawl, and what the ledger says of every page with text: its
language, and whether it is a duplicate and of which page. Every record left out is counted by reason. The result does
not depend on the order of the files nor on who read them.
"""

import shutil
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from corpus.archives import input_files
from corpus.config import CorpusConfig
from corpus.crawl import Crawl, stop_if_asked
from corpus.dedup import Duplicates, Signatures, near_duplicates
from corpus.pages import PageStore
from corpus.shards import Shard, megabytes, read_shards, shards_of
from corpus.summary import counts_line
from stage import Stage, UsageError


@dataclass(frozen=True)
class Origin:
    """What reading found out about the pages, by their number on disk."""

    languages: list[str] = field(default_factory=list)
    duplicates: dict[int, tuple[str, int]] = field(default_factory=dict)  # (reason, number of the page that stays)


def read_crawl(stage: Stage, config: CorpusConfig, store: PageStore, workers: int) -> tuple[Crawl, Origin]:
    """Read and extract all files (or what is left of them), then remove duplicates."""
    files = input_files(config.inputs)
    for file in files:
        if "://" not in file:
            stage.read_file(file)
    shards = shards_of(stage, files)
    with stage.progress("read", megabytes(shards), "MB") as progress:
        read_shards(stage, shards, config, workers, progress)
    duplicates, origin = _merge(stage, shards, store)
    exact = duplicates.exact()
    unique = duplicates.in_order(n for n in range(len(store)) if n not in exact)
    near = near_duplicates(_signatures(stage, config.dedup.num_perm), unique, config.dedup)
    origin.duplicates.update(exact)
    origin.duplicates.update({unique[p]: ("near-duplicate", unique[kept]) for p, kept in near.items()})
    (stage.work / "signatures.u32").unlink()
    for reason, _ in origin.duplicates.values():
        stage.drop(reason)
    print(f"corpus: {counts_line(stage.counts)}", flush=True)
    crawl = Crawl(store, [n for n in unique if n not in origin.duplicates])
    for page in crawl.pages():
        crawl.keys.append(page.key)
        crawl.characters.append(len(page.text))
    if not crawl.numbers:
        raise UsageError(f"corpus.inputs: no usable page in {', '.join(config.inputs)}")
    return crawl, origin


def _merge(stage: Stage, shards: list[Shard], store: PageStore) -> tuple[Duplicates, Origin]:
    """All pages into one store, all signatures into one file, all counts together."""
    duplicates, origin = Duplicates(), Origin()
    with (
        open(stage.work / "signatures.u32", "wb") as signed,
        stage.progress("merge", len(shards), "files") as progress,
    ):
        for shard in shards:
            done = shard.done
            assert done is not None  # read_shards has just seen to it
            for page, language, digest in shard.rows():
                store.append(page)
                duplicates.add(page, digest)
                origin.languages.append(language)
            with open(shard.folder / "signatures.u32", "rb") as part:
                shutil.copyfileobj(part, signed, 1 << 20)
            stage.counts["in"] += done["records"]
            stage.counts["dropped"].update(Counter(done["dropped"]))
            progress.update(1, pages=len(store))
            stop_if_asked(stage)
    return duplicates, origin


def _signatures(stage: Stage, num_perm: int) -> Signatures:
    """The signatures on disk, [pages, num_perm]."""
    file = stage.work / "signatures.u32"
    if not file.stat().st_size:
        return np.empty((0, num_perm), dtype=np.uint32)
    return np.memmap(file, dtype=np.uint32, mode="r").reshape(-1, num_perm)
