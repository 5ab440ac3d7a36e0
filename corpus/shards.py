"""Reading the crawl, one input file at a time: the unit of work that a killed run, or a job of an array, redoes.

Comes in: the archives. Goes out, for each, a folder `read/<hash of its name>/` in the stage's working directory:

    pages.jsonl      its pages with text: {"page": the fields of Page, "language", "digest": of the text, hexadecimal}
    signatures.u32   their MinHash signatures, num_perm numbers each
    done.json        {"file", "records", "pages", "dropped": {reason: count}}, written last: the file is complete

What a folder holds depends on the file and the profile alone, so any number of workers on any number of machines may
share the work: each takes some files, and whoever finds all marks merges them (corpus/merge.py).
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from corpus.config import CorpusConfig
from corpus.crawl import extract_pages, stop_if_asked
from corpus.dedup import canonical_url, signatures, text_digest
from corpus.language import language_of
from corpus.normalize import is_chinese
from corpus.pages import Page
from corpus.warc import Record
from stage import Progress, Stage, UsageError, atomic_write
from stage.context import remove

BATCH = 64  # pages signed and written at once
POLL_SECONDS = 0.5
_done_bytes: Any = None  # of all workers together, in the memory they share
_stop: Any = None


@dataclass(frozen=True)
class Shard:
    """One input file and the folder of what was read from it."""

    file: str
    folder: Path

    @property
    def done(self) -> dict[str, Any] | None:
        """Its done.json; None when it has not been read to the end."""
        mark = self.folder / "done.json"
        return json.loads(mark.read_text()) if mark.is_file() else None

    def rows(self) -> Iterator[tuple[Page, str, bytes]]:
        """Its pages with language and digest, in the order of the file."""
        with open(self.folder / "pages.jsonl", "rb") as f:
            for line in f:
                row = json.loads(line)
                yield Page(**row["page"]), row["language"], bytes.fromhex(row["digest"])


def shards_of(stage: Stage, files: Sequence[str]) -> list[Shard]:
    """The shard of each file."""
    return [Shard(f, stage.work / "read" / hashlib.blake2b(f.encode(), digest_size=8).hexdigest()) for f in files]


def megabytes(shards: Sequence[Shard]) -> int:
    """Size of the files that are still to be read."""
    return max(1, sum(_size(s.file) for s in shards if s.done is None) // 2**20)


def read_shards(stage: Stage, shards: Sequence[Shard], config: CorpusConfig, workers: int, progress: Progress) -> None:
    """Read those that are not complete, in `workers` processes. Raises Preempted soon after being asked to stop."""
    todo = [s for s in shards if s.done is None]
    if len(todo) < len(shards):
        print(f"corpus: {len(shards) - len(todo)} of {len(shards)} files were read before", flush=True)
    context = get_context("spawn")  # a fork would copy the locks that fastText's and Rust's threads hold
    done_bytes, stop = context.Value("q", 0), context.Value("b", 0)
    _share(done_bytes, stop)
    if workers == 1 or len(todo) <= 1:
        for number, shard in enumerate(todo, 1):
            for pages in read_shard(shard, config):
                _show(progress, done_bytes.value, file=f"{number}/{len(todo)}", pages=pages)
                stop_if_asked(stage)
        return
    largest_first = sorted(todo, key=lambda s: (-_size(s.file), s.file))
    with ProcessPoolExecutor(min(workers, len(todo)), context, _share, (done_bytes, stop)) as pool:
        pending, finished = {pool.submit(_read, shard, config) for shard in largest_first}, 0
        while pending:
            ended, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
            finished += len(ended)
            failed = [error for future in ended if (error := future.exception())]
            if stage.preempted or failed:
                stop.value = 1
                pool.shutdown(cancel_futures=True)
                stop_if_asked(stage)
                raise failed[0]
            _show(progress, done_bytes.value, files=f"{finished}/{len(todo)}")


def _show(progress: Progress, done_bytes: int, **fields: object) -> None:
    progress.update(max(0, done_bytes // 2**20 - progress.done), **fields)


def _share(done_bytes: Any, stop: Any) -> None:
    """What all workers share: the count of bytes read, and whether to stop."""
    global _done_bytes, _stop
    _done_bytes, _stop = done_bytes, stop


def _read(shard: Shard, config: CorpusConfig) -> None:
    """A worker's task; left unfinished when it is to stop."""
    for _ in read_shard(shard, config):
        if _stop.value:
            return


def read_shard(shard: Shard, config: CorpusConfig) -> Iterator[int]:
    """Read one file into its folder; yields the number of pages so far, now and then."""
    remove(shard.folder)
    shard.folder.mkdir(parents=True)
    dropped, pages = Counter[str](), 0
    source = _counted(extract_pages(shard.file, config.read, lambda reason: dropped.update([reason])), shard.file)
    try:
        with open(shard.folder / "pages.jsonl", "wb") as lines, open(shard.folder / "signatures.u32", "wb") as signed:
            while batch := list(islice(source, BATCH)):
                for record, text in batch:
                    lines.write(_row(record, text))
                chinese = [(text, is_chinese(text)) for _, text in batch]
                signed.write(signatures(chinese, config.dedup).tobytes())
                pages += len(batch)
                yield pages
    except OSError as error:
        raise UsageError(f"corpus.inputs: {shard.file} cannot be read: {error.strerror or error}") from None
    done = {"file": shard.file, "records": pages + sum(dropped.values()), "pages": pages, "dropped": dict(dropped)}
    atomic_write(shard.folder / "done.json", json.dumps(done))


def _counted(pages: Iterator[tuple[Record, str]], file: str) -> Iterator[tuple[Record, str]]:
    """Add the bytes passed to the count of all workers."""
    before = 0
    for record, text in pages:
        _count(record.offset - before)
        before = record.offset
        yield record, text
    _count(_size(file) - before)


def _row(record: Record, text: str) -> bytes:
    page = Page(canonical_url(record.url), record.url, text, is_chinese(text), record.file, record.offset)
    row = {"page": asdict(page), "language": language_of(text), "digest": text_digest(text).hex()}
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _count(more: int) -> None:
    if _done_bytes is not None:
        with _done_bytes.get_lock():
            _done_bytes.value += more


def _size(file: str) -> int:
    """Bytes of a file; 0 where the server does not say."""
    if "://" not in file:
        return os.path.getsize(file) if os.path.exists(file) else 0
    import fsspec  # type: ignore[import-untyped]

    filesystem, path = fsspec.core.url_to_fs(file)
    return int(filesystem.size(path) or 0)
