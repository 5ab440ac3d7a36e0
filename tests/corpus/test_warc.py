"""Reading archives: what is a page, what is skipped and why, and that nothing broken stops the reader."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from corpus.config import ReadConfig
from corpus.crawl import extract_pages
from corpus.warc import Record, input_files, read_records
from stage import UsageError
from tests.corpus.conftest import html_page, warc_record, write_warc

# file of warc/odd: (pages with text, records or files left out)
ODD = {
    "20141129-heritrix-original.warc.gz": (1, {}),
    "20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz": (0, {"no page: revisit record": 1}),
    "bad.arc": (0, {"broken archive": 1}),
    "block-sized-records.warc.gz": (0, {"no page: unknown record": 3}),
    "clipped.warc.gz": (1, {}),
    "clueweb-quirk.warc.gz": (29, {"no page: warcinfo record": 1}),
    "example-resource.warc.gz": (1, {"no page: warcinfo record": 2}),
    "example-trunc.warc": (1, {"no page: warcinfo record": 2, "broken archive": 1}),
    "example-wrong-chunks.warc.gz": (1, {"no page: request record": 1}),
    "post-test.warc.gz": (0, {"not HTML": 3, "no page: request record": 3}),
    "whirlwind.warc.wet.gz": (1, {"no page: warcinfo record": 1}),
}


def read(path: Path, max_bytes: int = 100_000) -> tuple[list[Record], Counter[str]]:
    dropped: Counter[str] = Counter()
    return list(read_records(str(path), max_bytes, lambda reason: dropped.update([reason]))), dropped


@pytest.mark.parametrize("name", sorted(ODD))
def test_odd_archives_give_their_pages_and_count_the_rest(shared_data: Path, name: str) -> None:
    dropped: Counter[str] = Counter()
    file = shared_data / "warc/odd" / name
    pages = list(extract_pages(str(file), ReadConfig(), lambda reason: dropped.update([reason])))
    assert (len(pages), dict(dropped)) == ODD[name]


def test_no_archive_of_the_odd_collection_raises(shared_data: Path) -> None:
    files = sorted((shared_data / "warc/odd").iterdir())
    dropped: Counter[str] = Counter()
    pages = [p for f in files for p in extract_pages(str(f), ReadConfig(), lambda r: dropped.update([r]))]
    assert len(files) == 25
    assert len(pages) == 59
    assert all(text for _, text in pages)


def test_pages_after_broken_bytes_are_read(tmp_path: Path) -> None:
    members = [gzip.compress(warc_record(f"http://a.org/{i}", html_page(f"page {i}"))) for i in range(5)]
    members[1] = members[1][:50] + b"\xff" * 20 + members[1][70:]
    members[3] = members[3][:60]
    file = tmp_path / "broken.warc.gz"
    file.write_bytes(b"".join(members))
    records, dropped = read(file)
    assert [r.url for r in records] == ["http://a.org/0", "http://a.org/2", "http://a.org/4"]
    assert dropped == {"broken archive": 2}
    with open(file, "rb") as f:
        f.seek(records[2].offset)
        assert gzip.decompress(f.read()).startswith(b"WARC/1.0")


def test_each_skip_has_its_reason(tmp_path: Path) -> None:
    http = b"HTTP/1.1 %b\r\nContent-Type: %b\r\n\r\n"
    records = [
        warc_record("http://a.org/", html_page("fine")),
        warc_record("http://a.org/404", html_page("gone"), http % (b"404 Not Found", b"text/html")),
        warc_record("http://a.org/p.pdf", b"%PDF", http % (b"200 OK", b"application/pdf")),
        warc_record("dns:a.org", b"a.org 1.2.3.4"),
        warc_record("http://a.org/big", b"x" * 200_000),
    ]
    pages, dropped = read(write_warc(tmp_path / "a.warc.gz", records))
    assert [p.url for p in pages] == ["http://a.org/"]
    assert dropped == {"HTTP status not 200": 1, "not HTML": 1, "no web address": 1, "page too large": 1}


def test_a_decompression_bomb_is_too_large_not_fatal(tmp_path: Path) -> None:
    body = gzip.compress(b"0" * 50_000_000)
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    records = [warc_record("http://a.org/bomb", body, http), warc_record("http://a.org/", html_page("fine"))]
    pages, dropped = read(write_warc(tmp_path / "a.warc.gz", records))
    assert [p.url for p in pages] == ["http://a.org/"]
    assert dropped == {"page too large": 1}


def test_files_come_from_paths_globs_and_urls(tmp_path: Path) -> None:
    files = [write_warc(tmp_path / f"{n}.warc.gz", [warc_record("http://a.org/", html_page("x"))]) for n in "ba"]
    assert input_files([f"{tmp_path}/*.warc.gz", str(files[0])]) == [str(f) for f in sorted(files)]
    (url,) = input_files([f"file://{tmp_path}/a*.warc.gz"])
    assert url.startswith("file://")
    assert len(list(read_records(url, 100_000, lambda reason: None))) == 1


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file matches"):
        input_files([f"{tmp_path}/*.warc.gz"])
