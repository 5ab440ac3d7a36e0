"""The crawl as the rounds see it: the pages of the input files that have text and are no duplicates.

Comes in: the archives of the profile. Goes out: a Crawl; every record left out is counted by reason.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from corpus.config import CorpusConfig, ReadConfig
from corpus.dedup import Duplicates, canonical_url, near_duplicates
from corpus.extract import PageError, page_text
from corpus.normalize import is_chinese
from corpus.pages import Page, PageStore
from corpus.summary import counts_line
from corpus.warc import Record, input_files, read_records
from stage import Preempted, Stage, UsageError


@dataclass(frozen=True)
class Crawl:
    """The unique pages, in an order that the order of reading does not change; position i is `numbers[i]` on disk."""

    store: PageStore
    numbers: list[int]
    keys: list[str] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.numbers)

    def page(self, position: int) -> Page:
        return self.store[self.numbers[position]]

    def pages(self) -> Iterator[Page]:
        return self.store.select(self.numbers)


def read_crawl(stage: Stage, config: CorpusConfig, store: PageStore) -> tuple[Crawl, dict[int, str]]:
    """Read, extract and deduplicate; also the reason for every page on disk that is a duplicate."""
    duplicates = Duplicates()
    files = input_files(config.inputs)
    with stage.progress("read pages", len(files), "files") as progress:
        for file in files:
            if "://" not in file:
                stage.read_file(file)
            for page in _pages(stage, file, config.read):
                store.append(page)
                duplicates.add(page)
                progress.update(0, pages=len(store))
            progress.update(1)
            stop_if_asked(stage)
    reasons = duplicates.exact()
    unique = duplicates.in_order(n for n in range(len(store)) if n not in reasons)
    with stage.progress("find near-duplicates", len(unique), "pages") as progress:
        pages = _counted(store.select(unique), progress.update)
        reasons |= {unique[position]: "near-duplicate" for position in near_duplicates(pages, config.dedup)}
    for reason in reasons.values():
        stage.drop(reason)
    print(f"corpus: {counts_line(stage.counts)}", flush=True)
    crawl = Crawl(store, [n for n in unique if n not in reasons])
    for page in crawl.pages():
        crawl.keys.append(page.key)
        crawl.characters.append(len(page.text))
    if not crawl.numbers:
        raise UsageError(f"corpus.inputs: no usable page in {', '.join(config.inputs)}")
    return crawl, reasons


def extract_pages(file: str, config: ReadConfig, drop: Callable[[str], None]) -> Iterator[tuple[Record, str]]:
    """Every record of one archive that has text, with its text; each other one goes to `drop(reason)`."""
    for record in read_records(file, config.max_page_bytes, drop):
        try:
            text = page_text(record, config)
        except PageError as error:
            drop(str(error))
        else:
            yield record, text


def stop_if_asked(stage: Stage) -> None:
    """Leave when a signal asked the process to stop; the next attempt starts from the beginning."""
    if stage.preempted:
        raise Preempted(stage.name)


def _pages(stage: Stage, file: str, config: ReadConfig) -> Iterator[Page]:
    def drop(reason: str) -> None:
        stage.counts["in"] += 1
        stage.drop(reason)

    for record, text in extract_pages(file, config, drop):
        stage.counts["in"] += 1
        key = canonical_url(record.url)
        yield Page(key, record.url, text, is_chinese(text), record.file, record.offset)


def _counted(pages: Iterator[Page], count: Callable[[int], None]) -> Iterator[Page]:
    for page in pages:
        count(1)
        yield page
