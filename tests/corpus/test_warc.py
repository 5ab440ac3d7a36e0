"""Reading archives: what is a page, what is skipped and why, and that nothing broken stops the reader."""

import gzip
import os
import re
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import fsspec  # type: ignore[import-untyped]
import pytest

from corpus.archives import input_files
from corpus.config import ReadConfig
from corpus.extract import page_text
from corpus.warc import Record, read_records
from stage import UsageError
from tests.corpus.conftest import html_page, warc_record, write_warc

DOMAIN = "This domain is established to be used for illustrative examples"
WARCINFO, REQUEST, REVISIT = "no page: warcinfo record", "no page: request record", "no page: revisit record"
METADATA = "no page: metadata record"


class Odd(NamedTuple):
    """What is read from one file of warc/odd, and what is left out by reason."""

    oddity: str
    pages: int
    left_out: dict[str, int]
    says: str = ""  # words of the first page's text


ODD = {
    "20141129-heritrix-original.warc.gz": Odd(
        "one response and nothing else", 1, {}, "home to the UK’s news collections"
    ),
    "20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz": Odd(
        "a revisit: the page is in another archive", 0, {REVISIT: 1}
    ),
    "IAH-20080430204825-00000-blackbook-truncated.warc.gz": Odd(
        "WARC 0.17, last member cut off; a dns: record; images",
        2,
        {WARCINFO: 1, "no web address": 1, "not HTML": 5, REQUEST: 7, METADATA: 7},
    ),
    "IAH-urls-wget.warc.gz": Odd(
        "redirects, images, and wget's own logs as resource records",
        2,
        {WARCINFO: 1, REQUEST: 16, "HTTP status not 200": 9, "not HTML": 5, "no web address": 3},
        "Universal Access To All Knowledge",
    ),
    "bad.arc": Odd("ARC with the lengths -1, -1, 1 and abc", 0, {"broken archive": 3, "no HTTP response": 1}),
    "block-sized-records.warc.gz": Odd("records of a type that no standard knows", 0, {"no page: unknown record": 3}),
    "clipped.warc.gz": Odd("a single member, cut off", 1, {}, "A Humble Chance The Rapper"),
    "clueweb-quirk.warc.gz": Odd("ClueWeb: lines end with LF alone, WARC 0.18", 29, {WARCINFO: 1}, "ヘッドポーター"),
    "example-bad-non-chunked.warc.gz": Odd(
        "records share gzip members, so that offsets say nothing", 1, {WARCINFO: 2, REQUEST: 2, REVISIT: 1}, DOMAIN
    ),
    "example-bad.warc.gz.bad": Odd(
        "the whole file is one gzip member; a 404",
        1,
        {WARCINFO: 1, REQUEST: 2, REVISIT: 1, "HTTP status not 200": 1},
        DOMAIN,
    ),
    "example-digest.warc": Odd("requests with right and wrong digests", 0, {REQUEST: 4}),
    "example-iana.org-chunked.warc": Odd(
        "chunked transfer encoding", 1, {WARCINFO: 1, REQUEST: 1}, "The global coordination of the DNS Root"
    ),
    "example-resource.warc.gz": Odd("a page as a resource record, without HTTP", 1, {WARCINFO: 2}, DOMAIN),
    "example-space-in-url.arc": Odd(
        "ARC, uncompressed; spaces in the URL; LF in the HTTP header; a length that is too large",
        1,
        {"no page: filedesc record": 1},
        DOMAIN,
    ),
    "example-trunc.warc": Odd(
        "a response cut off in the middle, other records after it",
        1,
        {WARCINFO: 2, "broken archive": 1, REQUEST: 1},
        DOMAIN,
    ),
    "example-wget-bad-target-uri.warc.gz": Odd(
        "wget's URLs in angle brackets, and its logs",
        1,
        {WARCINFO: 1, REQUEST: 1, METADATA: 1, "no web address": 2},
        DOMAIN,
    ),
    "example-wrong-chunks.warc.gz": Odd("says chunked and is not", 1, {REQUEST: 1}, DOMAIN),
    "example.arc.gz": Odd("ARC, compressed", 1, {"no page: filedesc record": 1}, DOMAIN),
    "example.warc": Odd("an ordinary WARC", 1, {WARCINFO: 2, REQUEST: 2, REVISIT: 1}, DOMAIN),
    "example.warc.gz": Odd("the same, compressed", 1, {WARCINFO: 2, REQUEST: 2, REVISIT: 1}, DOMAIN),
    "main-page.warc.gz": Odd(
        "one page among its images, scripts and style sheets",
        1,
        {WARCINFO: 1, REQUEST: 77, "not HTML": 69, "no web address": 3},
        "From Wikipedia, the free encyclopedia",
    ),
    "post-test.warc.gz": Odd("answers to POST in JSON", 0, {"not HTML": 3, REQUEST: 3}),
    "warcfile.warc.gz": Odd(
        "pages of many charsets, of Common Crawl", 16, {WARCINFO: 1, REQUEST: 17, METADATA: 16}, "广东省人民政府首页"
    ),
    "whirlwind.warc.gz": Odd("Common Crawl, WARC", 1, {WARCINFO: 1, REQUEST: 1, METADATA: 1}, "Escopete"),
    "whirlwind.warc.wet.gz": Odd(
        "the same as WET: text, with the menus in it", 1, {WARCINFO: 1}, "Escopete - Biquipedia, a enciclopedia libre"
    ),
}


def read(path: Path | str, max_bytes: int = 200_000) -> tuple[list[Record], Counter[str]]:
    dropped: Counter[str] = Counter()
    return list(read_records(str(path), max_bytes, lambda reason: dropped.update([reason]))), dropped


@pytest.mark.parametrize("name", ODD)
def test_odd_archives_give_their_pages_and_count_the_rest(shared_data: Path, name: str) -> None:
    odd = ODD[name]
    records, dropped = read(shared_data / "warc/odd" / name)
    assert (len(records), dict(dropped)) == (odd.pages, odd.left_out), odd.oddity
    assert all(r.url.startswith("http") and " " not in r.url for r in records)
    if odd.says:
        assert odd.says in page_text(records[0], ReadConfig())


def test_the_odd_archives_are_all_in_the_table(shared_data: Path) -> None:
    assert {f.name for f in (shared_data / "warc/odd").iterdir()} == set(ODD)


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
        warc_record("http://a.org/big", b"x" * 300_000),
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


HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
PAGE = html_page("x")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (warc_record("http://a.org/", PAGE, HTML + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"), "unreadable payload"),
        (
            warc_record("http://a.org/", PAGE, HTML + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFF\r\n"),
            "unreadable payload",
        ),
        (warc_record("http://a.org/", PAGE, HTML + b"Content-Encoding: gzip\r\n\r\n"), "unreadable payload"),
        (warc_record("http://a.org/", PAGE, HTML + b"Content-Encoding: pigeon\r\n\r\n"), "unreadable payload"),
        (warc_record("http://a.org/", PAGE, HTML + b"X: " + b"x" * 20_000_000 + b"\r\n\r\n"), "unreadable payload"),
        (warc_record("http://a.org/", b"x" * 50_000_000), "page too large"),
        (warc_record("http://a.org/", PAGE, b""), "no HTTP response"),
        (b"no record\r\n" * 1000, "broken archive"),
        (re.sub(b"Content-Length: .*", b"Content-Length: 50\r", warc_record("http://a.org/", PAGE)), "broken archive"),
        (b"\0" * 5_000_000 + b"\n", "broken archive"),
    ],
)
def test_one_bad_record_costs_neither_its_neighbours_nor_time_nor_memory(
    tmp_path: Path, record: bytes, reason: str
) -> None:
    """In an archive without compression, where nothing but its own lines tells where a record begins."""
    file = tmp_path / "a.warc"
    file.write_bytes(warc_record("http://a.org/before", PAGE) + record + warc_record("http://a.org/after", PAGE))
    started = time.monotonic()
    tracemalloc.start()
    pages, dropped = read(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [p.url for p in pages if p.url != "http://a.org/"] == ["http://a.org/before", "http://a.org/after"]
    assert dropped == {reason: 1}
    assert time.monotonic() - started < 5
    assert peak < 10_000_000


def test_a_header_with_lines_of_lf_alone_is_read(tmp_path: Path) -> None:
    http = b"HTTP/1.0 200 OK\nContent-Type: text/html; charset=koi8-r\n\n"
    (page,), dropped = read(write_warc(tmp_path / "a.warc.gz", [warc_record("http://a.org/", PAGE, http)]))
    assert (page.content, page.charset, dropped) == (PAGE, "koi8-r", {})


def arc_record(url: str, body: bytes, kind: str = "text/html", length: int | None = None) -> bytes:
    block = HTML + b"\r\n" + body
    return f"{url} 10.0.0.1 20080430204825 {kind} {len(block) if length is None else length}\n".encode() + block + b"\n"


@pytest.mark.parametrize("packing", ["plain", "a member for each record", "one member"])
def test_arc_files_are_read_past_what_is_broken_in_them(tmp_path: Path, packing: str) -> None:
    head = b"filedesc://a.arc 0.0.0.0 20080430204825 text/plain 9\n1 0 Test\n\n"
    records = [
        head,
        arc_record("http://a.org/1", PAGE),
        arc_record("http://a.org/2", PAGE, length=20),
        arc_record("dns:a.org", b"10.0.0.1", "text/dns"),
        arc_record("http://a.org/large", b"x" * 300_000),
        arc_record("http://a.org/a page", PAGE, "text/html; charset=utf-8"),
    ]
    packed = {"plain": b"".join, "one member": lambda r: gzip.compress(b"".join(r))}
    pack = packed.get(packing, lambda r: b"".join(gzip.compress(x) for x in r))
    file = tmp_path / ("a.arc" if packing == "plain" else "a.arc.gz")
    file.write_bytes(pack(records))
    pages, dropped = read(file)
    assert [p.url for p in pages] == ["http://a.org/1", "http://a.org/2", "http://a.org/a%20page"]
    # The second record ends after 20 bytes, inside its HTTP header; what is left of it is no record.
    assert [p.content for p in pages] == [PAGE, b"", PAGE]
    assert dropped == {
        "no page: filedesc record": 1,
        "broken archive": 1,
        "no web address": 1,
        "page too large": 1,
    }
    assert b"".join(records)[pages[2].offset :].startswith(b"http://a.org/a page")


def test_an_arc_file_cut_off_in_a_gzip_member_gives_what_lies_before(tmp_path: Path) -> None:
    file = tmp_path / "a.arc.gz"
    file.write_bytes(b"".join(gzip.compress(arc_record(f"http://a.org/{n}", PAGE)) for n in range(3))[:-50])
    pages, dropped = read(file)
    assert [p.url for p in pages] == ["http://a.org/0", "http://a.org/1"]
    assert dropped == {"broken archive": 1}


def test_files_come_from_paths_folders_and_globs(tmp_path: Path) -> None:
    for name in ("b.warc.gz", "a.warc.gz", "inner/c.warc.wet.gz", "inner/d.arc", "inner/notes.txt", "[1].warc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_warc(tmp_path / name, [])
    inner = [str(tmp_path / "inner" / n) for n in ("c.warc.wet.gz", "d.arc")]
    both = [str(tmp_path / n) for n in ("a.warc.gz", "b.warc.gz")]
    assert input_files([f"{tmp_path}/*.warc.gz", both[1]]) == both
    assert input_files([f"{tmp_path}/inner"]) == inner
    assert input_files([f"{tmp_path}/**/*.warc*"]) == sorted([*both, inner[0], f"{tmp_path}/[1].warc"])
    assert input_files([f"{tmp_path}/[1].warc"]) == [f"{tmp_path}/[1].warc"]


def test_files_come_from_any_file_system_of_fsspec(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    records = [warc_record(f"http://a.org/{n}", PAGE) for n in range(3)]
    memory.pipe("/crawl/x/a.warc.gz", write_warc(tmp_path / "a.warc.gz", records).read_bytes())
    memory.pipe("/crawl/notes.txt", b"")
    try:
        for pattern in ("memory://crawl/x/a.warc.gz", "memory://crawl/*/a*.gz", "memory://crawl"):
            (url,) = input_files([pattern])
            assert [r.url for r in read(url)[0]] == [f"http://a.org/{n}" for n in range(3)]
        with pytest.raises(UsageError, match="no file matches 'memory://crawl/z"):
            input_files(["memory://crawl/z*.gz"])
    finally:
        memory.rm("/crawl", recursive=True)


class Site(SimpleHTTPRequestHandler):
    """Serves the folder; `/cut.warc.gz` breaks off in the middle."""

    def do_GET(self) -> None:
        if not self.path.startswith("/cut"):
            return super().do_GET()
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_archives_are_read_from_a_web_server(tmp_path: Path, site: str) -> None:
    """Also from one that cannot serve parts of a file."""
    write_warc(tmp_path / "a.warc.gz", [warc_record(f"http://a.org/{n}", PAGE) for n in range(3)])
    (url,) = input_files([f"{site}/a.warc.gz"])
    assert [r.url for r in read(url)[0]] == [f"http://a.org/{n}" for n in range(3)]
    with pytest.raises(UsageError, match="no file matches"):
        input_files([f"{site}/missing.warc.gz"])


def test_a_connection_that_breaks_is_an_error_and_no_short_archive(tmp_path: Path, site: str) -> None:
    noise = [warc_record(f"http://a.org/{n}", html_page(os.urandom(30_000).hex())) for n in range(30)]
    write_warc(tmp_path / "cut.warc.gz", noise)
    with pytest.raises(UsageError, match=r"cannot read http://127\.0\.0\.1:\d+/cut\.warc\.gz: "):
        read(f"{site}/cut.warc.gz")


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    for name in (str(tmp_path), str(tmp_path / "none.warc.gz"), "memory://none.warc.gz", "pigeon://x/a.warc.gz"):
        with pytest.raises(UsageError) as caught:
            read(name)
        assert str(caught.value).startswith(f"corpus.inputs: cannot read {name}: ")
        assert "\n" not in str(caught.value)


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file matches"):
        input_files([f"{tmp_path}/*.warc.gz"])
