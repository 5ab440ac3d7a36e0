"""The crawl as the rounds see it: the pages of the input files that have text and are no duplicates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from corpus.config import ReadConfig
from corpus.extract import PageError, page_text
from corpus.pages import Page, PageStore
from corpus.warc import Record, read_records
from stage import Preempted, Stage


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
