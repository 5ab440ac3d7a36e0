"""Records of WARC, WET and ARC files, compressed or not; what cannot be read is counted, never raised.

Comes in: the name of an archive, local or remote. Goes out: one Record for each page; every other record is reported to
`drop(reason)`, so that records read = pages + dropped. Memory is bounded by the largest page that is let in.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from corpus.arc import arc_records, warc_response
from corpus.archives import open_archive
from stage import UsageError

Drop = Callable[[str], None]
PAGE_TYPES = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion
HTML_TYPES = ("text/html", "application/xhtml+xml")
BROKEN = (OSError, ValueError, RuntimeError, EOFError)
RECORD_START = re.compile(rb"\x1f\x8b\x08|\nWARC/[01]\.")
SEARCH_BLOCK = 1 << 20
HTTP_HEAD = 64 << 10  # room for an HTTP header beside the largest page


@dataclass(frozen=True)
class Record:
    """One page as it lies in an archive."""

    url: str
    content: bytes
    is_html: bool  # False: plain text (WET)
    charset: str | None  # as the HTTP header says
    file: str
    offset: int  # of the record in the file; in a compressed ARC file, in its decompressed bytes


class Skip(Exception):
    """This record is no page; the message is the reason to count."""


def read_records(file: str, max_bytes: int, drop: Drop) -> Iterator[Record]:
    """The pages of one archive, which its name tells: `.arc` and `.arc.gz` are ARC, all others WARC or WET."""
    with open_archive(file) as stream:
        if file.endswith((".arc", ".arc.gz")):
            for offset, warc in arc_records(stream, file.endswith(".gz"), max_bytes + HTTP_HEAD, drop):
                yield from _page_or_drop(WarcRecord.from_bytes(warc), file, offset, max_bytes, drop)
        else:
            yield from _read_warc(stream, file, max_bytes, drop)
        failure = getattr(stream, "failure", None)
        if isinstance(failure, UsageError):
            raise failure


def _read_warc(stream: IO[bytes], file: str, max_bytes: int, drop: Drop) -> Iterator[Record]:
    """After broken bytes, reading goes on at the next record: its gzip member, or its first line."""
    start: int | None = 0
    while start is not None:
        if start:
            stream.seek(start)
        last, records = start, 0
        try:
            for record in ArchiveIterator(stream, parse_http=False, strict_mode=False):
                last, records = record.stream_pos, records + 1
                yield from _page_or_drop(record, file, last, max_bytes, drop)
            start = None
        except BROKEN:
            if records or not start:  # a restart that finds nothing is still the same break
                drop("broken archive")
            start = _next_record(stream, last + 1) if stream.seekable() else None


def _page_or_drop(record: WarcRecord, file: str, offset: int, max_bytes: int, drop: Drop) -> Iterator[Record]:
    try:
        yield _page(record, file, offset, max_bytes)
    except Skip as skip:
        drop(str(skip))
    except BROKEN:
        drop("unreadable payload")


def _page(record: WarcRecord, file: str, offset: int, max_bytes: int) -> Record:
    kind = record.record_type
    if not kind & PAGE_TYPES:
        raise Skip(f"no page: {str(kind).rsplit('.', 1)[-1]} record")
    url = (record.headers.get("WARC-Target-URI") or "").strip().strip("<>").replace(" ", "%20")
    if not url.startswith(("http://", "https://")):
        raise Skip("no web address")
    if record.is_http:
        record = _http_record(record, url, max_bytes)
    if kind & WarcRecordType.response and not (record.is_http and record.http_headers.status_code):
        raise Skip("no HTTP response")
    if record.is_http and record.http_headers.status_code not in (None, 200):
        raise Skip("HTTP status not 200")
    content_type = _content_type(record)
    is_html = content_type in HTML_TYPES
    if not is_html and not (kind & WarcRecordType.conversion and content_type == "text/plain"):
        raise Skip("not HTML")
    if record.content_length > max_bytes + HTTP_HEAD:
        raise Skip("page too large")
    content = record.reader.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise Skip("page too large")
    charset = record.http_charset if record.is_http else "utf-8" if not is_html else None
    return Record(url, content, is_html, charset, file, offset)


def _http_record(record: WarcRecord, url: str, max_bytes: int) -> WarcRecord:
    """The record with its HTTP header parsed. One that may become a page is read into memory and parsed there.

    So a body that cannot be decoded (chunks, gzip) spoils this record and none after it.
    """
    if record.content_length > max_bytes + HTTP_HEAD:  # too large for a page, whatever is in it
        record.parse_http()
        return record
    response = record.reader.read(max_bytes + HTTP_HEAD)
    record = WarcRecord.from_bytes(warc_response(url.encode(), response))
    # Some servers end the lines of the header with LF alone.
    record.parse_http(auto_decode="all", quirks_mode=b"\r\n\r\n" not in response[:HTTP_HEAD])
    return record


def _content_type(record: WarcRecord) -> str:
    declared = record.http_content_type if record.is_http else record.headers.get("Content-Type")
    # A server that declares nothing mostly serves HTML; the extraction drops what turns out binary.
    return (declared or "text/html").split(";")[0].strip().lower()


def _next_record(stream: IO[bytes], start: int) -> int | None:
    """Offset at or after `start` of a record, or of a gzip member that begins with one; None when there is none."""
    stream.seek(start)
    block, base = stream.read(SEARCH_BLOCK), start
    while len(block) > 8:
        for found in RECORD_START.finditer(block):
            if found[0].startswith(b"\n"):
                return base + found.start() + 1
            stream.seek(base + found.start())
            if _is_warc_member(stream.read(1024)):
                return base + found.start()
        base += len(block) - 8  # a mark may lie across two blocks
        stream.seek(base)
        block = stream.read(SEARCH_BLOCK)
    return None


def _is_warc_member(head: bytes) -> bool:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 5) == b"WARC/"
    except zlib.error:
        return False
