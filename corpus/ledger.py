"""The story of every page with text: `ledger.jsonl`, one line each, in the order of pages.jsonl.

    {"id", "url", "crawl", "file", "offset", "language", "fate", ...}

`fate` is `collected`, `contaminated`, `below the cut`, `duplicate URL`, `duplicate text` or `near-duplicate`. A page
that was scored has `scores`, round by round, and `round`, the first that collected it (null: none did). A duplicate has
`duplicate_of`, the id and URL of the page that stays. A contaminated page has `benchmark`, `problem` and `ngram`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus.crawl import Crawl
from corpus.merge import Origin
from corpus.mixture import Contamination
from corpus.pages import Page
from corpus.rounds import Mined

CRAWL_NAME = re.compile(r"CC-MAIN-\d{4}-\d{2}")


class Ledger:
    """What is known of each page once the rounds have ended."""

    def __init__(self, crawl: Crawl, origin: Origin, mined: Mined) -> None:
        self._crawl, self._origin, self._mined = crawl, origin, mined
        self._position = {number: position for position, number in enumerate(crawl.numbers)}
        self._collected = set(mined.collected)

    def document(self, position: int) -> dict[str, Any]:
        """What a mined page's line beside its shard says of it."""
        number = self._crawl.numbers[position]
        return {**self._source(number, self._crawl.store[number]), **self._mining(position)}

    def write(self, file: Path, contaminated: list[Contamination], mined_source: str) -> None:
        """All pages, to `file`."""
        matches = {c["document"]: c for c in contaminated if c["source"] == mined_source}
        with open(file, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in self._entries(matches))

    def _entries(self, matches: dict[str, Contamination]) -> Iterator[dict[str, Any]]:
        for number in range(len(self._crawl.store)):
            page = self._crawl.store[number]
            entry = {"id": page.id, **self._source(number, page)}
            if number in self._origin.duplicates:
                reason, kept = self._origin.duplicates[number]
                stays = self._crawl.store[kept]
                yield entry | {"fate": reason, "duplicate_of": {"id": stays.id, "url": stays.url}}
                continue
            position = self._position[number]
            fate = "collected" if position in self._collected else "below the cut"
            entry |= {"fate": fate, **self._mining(position)}
            if fate == "collected" and (match := matches.get(page.id)):
                entry |= {"fate": "contaminated"} | {k: match[k] for k in ("benchmark", "problem", "ngram")}
            yield entry

    def _source(self, number: int, page: Page) -> dict[str, Any]:
        return {
            "url": page.url,
            "crawl": crawl_of(page.file),
            "file": page.file,
            "offset": page.offset,
            "language": self._origin.languages[number],
        }

    def _mining(self, position: int) -> dict[str, Any]:
        scores = [round(float(s[position]), 6) for s in self._mined.scores]
        return {"scores": scores, "round": self._mined.rounds.get(position)}


def crawl_of(file: str) -> str | None:
    """The Common Crawl snapshot that a file's path names; None when it names none.

    >>> crawl_of("https://data.commoncrawl.org/crawl-data/CC-MAIN-2024-10/segments/1/warc/x.warc.gz")
    'CC-MAIN-2024-10'
    """
    found = CRAWL_NAME.search(file)
    return found[0] if found else None
