"""Cuts the example data of the repository out of a folder of larger data. Run from the repository root.

python examples/make_examples.py --data DIR

DIR holds warc/docs-math.warc.gz and warc/docs-other.warc.gz (pages of Debian's documentation packages),
gsm8k/test.jsonl, math/test.jsonl and benchmarks/cmath-test.jsonl. Written, always the same from the same input (and the
same Python, for its standard library is one of the sources): pages.warc.gz, seed.jsonl, known_pages.txt,
benchmarks/*.jsonl, sources/*.jsonl. Licences: examples/LICENSES.md.

The crawl is made so that the rounds have something to do: the seed knows three of the mathematical sites, the crawl has
other pages of the three and three more sites; two of the sites also have pages without mathematics.
"""

import argparse
import hashlib
import json
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType

from corpus.config import ReadConfig
from corpus.extract import PageError, page_text
from corpus.normalize import is_chinese
from corpus.warc import Record, read_records

ROOT = Path(__file__).resolve().parents[1]
MATHS_PAGES = {  # site: (pages of the crawl, texts of the seed)
    "docs.scipy.org": (9, 18),
    "flintlib.org": (6, 12),
    "mpmath.org": (4, 10),
    "doc.sagemath.org": (14, 0),
    "fenicsproject.org": (8, 0),
    "ceres-solver.org": (5, 0),
}
OTHER_PAGES = {
    "docs.djangoproject.com": 26,
    "docs.python.org": 22,
    "www.debian.org": 4,
    "docs.scipy.org": 3,
    "fenicsproject.org": 5,
}
PAGE_BYTES = range(6_000, 60_000)
SEED_CHARACTERS = 3_000
SOURCE_CHARACTERS = 6_000
PROBLEMS = 100
MATHS_CODE = ["fractions", "statistics", "numbers", "random", "_pydecimal", "colorsys", "graphlib"]
OTHER_CODE = ["textwrap", "heapq", "bisect", "csv", "queue", "shlex", "string", "fnmatch", "glob", "cmd", "sched"]
DATE = b"2024-05-18T01:58:10Z"


@dataclass(frozen=True)
class Doc:
    """A documentation page with its text."""

    record: Record
    text: str

    @property
    def site(self) -> str:
        return self.record.url.split("/")[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the larger data")
    parser.add_argument("--output", type=Path, default=ROOT / "examples")
    args = parser.parse_args()
    maths = list(read_docs(args.data / "warc/docs-math.warc.gz", keep=is_formula_page))
    other = list(read_docs(args.data / "warc/docs-other.warc.gz", keep=lambda doc: True))

    crawl_maths, seed, spare = [], [], []
    for site, (pages, texts) in MATHS_PAGES.items():
        crawled, rest = split(maths, site, pages)
        crawl_maths += crawled
        seed += rest[:texts]
        spare += rest[texts:]
    crawl_other, spare_other = [], []
    for site, pages in OTHER_PAGES.items():
        crawled, rest = split(other, site, pages)
        crawl_other += crawled
        spare_other += rest

    write_warc(args.output / "pages.warc.gz", [*crawl_maths, *crawl_other, *fetched_again(crawl_maths)])
    write_jsonl(args.output / "seed.jsonl", [row(d, SEED_CHARACTERS) for d in seed])
    known = sorted(d.record.url for d in crawl_maths[::3])
    (args.output / "known_pages.txt").write_text("".join(f"{url}\n" for url in known))
    write_benchmarks(args.data, args.output / "benchmarks")
    write_sources(args.output / "sources", spare, spare_other)


def split(docs: list[Doc], site: str, pages: int) -> tuple[list[Doc], list[Doc]]:
    """The first pages of a site that are of moderate size, and the rest of the site."""
    inside = [d for d in docs if d.site == site]
    crawled = [d for d in inside if len(d.record.content) in PAGE_BYTES][:pages]
    return crawled, [d for d in inside if d not in crawled]


def read_docs(file: Path, keep: Callable[[Doc], bool]) -> Iterator[Doc]:
    """Pages in an order that the hash of the address gives, so that no folder comes first."""
    docs = []
    for record in read_records(str(file), 5_000_000, drop=lambda reason: None):
        if "_static" not in record.url:
            try:
                docs.append(Doc(record, page_text(record, ReadConfig())))
            except PageError:
                continue
    return iter(sorted((d for d in docs if keep(d)), key=lambda d: digest(d.record.url)))


def is_formula_page(doc: Doc) -> bool:
    """Whether the text has at least three formulas in a thousand characters."""
    formulas = doc.text.count(r"\(") + doc.text.count(r"\[") + doc.text.count("$") / 2
    return formulas >= 3 * len(doc.text) / 1000


def fetched_again(docs: list[Doc]) -> list[Doc]:
    """Two pages a second time under another address, as crawls have them: the stage removes duplicates."""
    address = "http://{}?utm_source=feed#top"
    return [replace(d, record=replace(d.record, url=address.format(d.record.url.split("://")[1]))) for d in docs[:2]]


def write_warc(path: Path, docs: list[Doc]) -> None:
    """One gzip member a record, as in Common Crawl; record ids and dates do not change from run to run."""
    buffer = BytesIO()
    for doc in docs:
        url = doc.record.url.encode()
        record = WarcRecord()
        record.init_headers(WarcRecordType.response, record_urn=b"urn:uuid:" + uuid(doc.record.url).encode())
        record.headers.set_bytes(b"WARC-Date", DATE)
        record.headers.set_bytes(b"WARC-Target-URI", url)
        record.headers.set_bytes(b"Content-Type", b"application/http; msgtype=response")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
        body = doc.record.content
        record.set_bytes_content(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        with GzipWriter(buffer) as writer:
            record.write(writer)
    path.write_bytes(buffer.getvalue())


def write_benchmarks(data: Path, folder: Path) -> None:
    write_jsonl(folder / "gsm8k.jsonl", read_jsonl(data / "gsm8k/test.jsonl")[:PROBLEMS])
    problems = read_jsonl(data / "math/test.jsonl")
    kinds = sorted({(p["type"], p["level"]) for p in problems})
    queues = [[p for p in problems if (p["type"], p["level"]) == kind] for kind in kinds]
    spread = [q[i] for i in range(max(map(len, queues))) for q in queues if i < len(q)]
    write_jsonl(folder / "math.jsonl", spread[:PROBLEMS])
    cmath = read_jsonl(data / "benchmarks/cmath-test.jsonl")
    write_jsonl(folder / "cmath.jsonl", cmath[:: len(cmath) // PROBLEMS][:PROBLEMS])


def write_sources(folder: Path, maths: list[Doc], other: list[Doc]) -> None:
    write_jsonl(folder / "algebraic_stack.jsonl", [code(name) for name in MATHS_CODE])
    write_jsonl(folder / "github_code.jsonl", [code(name) for name in OTHER_CODE])
    sites = [[d for d in maths if d.site == site][:12] for site in MATHS_PAGES]
    write_jsonl(folder / "arxiv.jsonl", [row(d, SOURCE_CHARACTERS) for site in sites for d in site])
    english = [d for d in other if d.site in ("docs.djangoproject.com", "docs.python.org")]
    chinese = [d for d in other if is_chinese(d.text)]
    write_jsonl(folder / "natural_language.jsonl", [row(d, SOURCE_CHARACTERS) for d in [*english[:30], *chinese]])


def code(module: str) -> dict[str, str]:
    """A module of the Python standard library of this interpreter."""
    path = Path(sysconfig.get_path("stdlib")) / f"{module}.py"
    return {"text": path.read_text(encoding="utf-8")[: 4 * SOURCE_CHARACTERS], "source": f"cpython/Lib/{path.name}"}


def row(doc: Doc, characters: int) -> dict[str, str]:
    return {"text": doc.text[:characters], "source": doc.record.url}


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def uuid(text: str) -> str:
    d = digest(text)
    return f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:32]}"


if __name__ == "__main__":
    main()
