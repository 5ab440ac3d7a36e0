"""The pages of the crawl on disk, one JSON line each, with an index of byte offsets in memory.

A round reads every page's text in turn and now and then one in particular; the texts never have to fit in memory.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Page:
    """One page of the crawl, after extraction. `key` is its canonical URL; `file` and `offset` say where it lies."""

    key: str
    url: str
    text: str
    chinese: bool
    file: str
    offset: int

    @property
    def id(self) -> str:
        """A short name that does not depend on the order of reading."""
        return hashlib.blake2b(self.key.encode(), digest_size=8).hexdigest()


class PageStore:
    """Append pages, then read them by number; `pages.jsonl` of the stage's output."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "w+b")  # noqa: SIM115 - closed by __exit__; a file left by a killed attempt is overwritten
        self._offsets: list[int] = []

    def __enter__(self) -> "PageStore":
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, page: Page) -> None:
        self._file.seek(0, 2)
        self._offsets.append(self._file.tell())
        self._file.write(json.dumps(asdict(page), ensure_ascii=False).encode() + b"\n")

    def __getitem__(self, number: int) -> Page:
        self._file.seek(self._offsets[number])
        return Page(**json.loads(self._file.readline()))

    def select(self, numbers: list[int]) -> Iterator[Page]:
        """The pages with these numbers, in this order."""
        return (self[n] for n in numbers)

    def places(self, numbers: Iterable[int]) -> list[int]:
        """Where in the file, which is now complete on disk, the pages with these numbers begin."""
        self._file.flush()
        return [self._offsets[n] for n in numbers]


def read_texts_at(path: Path, places: Sequence[int]) -> list[str]:
    """The texts of the pages that begin at these places of a store's file; any process may ask."""
    texts = []
    with open(path, "rb") as f:
        for place in places:
            f.seek(place)
            texts.append(json.loads(f.readline())["text"])
    return texts
