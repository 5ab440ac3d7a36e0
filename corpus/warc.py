"""Records of WARC and WET files, compressed or not, local or remote; what cannot be read is counted, never raised.

Comes in: the paths, globs and URLs of the profile. Goes out: one Record for each page; every other record is reported
to `drop(reason)`, so that records read = pages + dropped.
"""

import glob
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, cast

from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from stage import UsageError

Drop = Callable[[str], None]
PAGE_TYPES = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion
HTML_TYPES = ("text/html", "application/xhtml+xml")
GZIP_MAGIC = b"\x1f\x8b\x08"
SEARCH_BLOCK = 1 << 20


@dataclass(frozen=True)
class Record:
    """One page as it lies in an archive."""

    url: str
    content: bytes
    is_html: bool  # False: plain text (WET)
    charset: str | None  # as the HTTP header says
    file: str
    offset: int


class Skip(Exception):
    """This record is no page; the message is the reason to count."""


def input_files(patterns: list[str]) -> list[str]:
    """Files that match the patterns, sorted, each once. A pattern that matches nothing is an error."""
    files: set[str] = set()
    for pattern in patterns:
        found = _remote_files(pattern) if "://" in pattern else glob.glob(pattern, recursive=True)
        if not found:
            raise UsageError(f"corpus.inputs: no file matches '{pattern}'")
        files.update(found)
    return sorted(files)


def read_records(file: str, max_bytes: int, drop: Drop) -> Iterator[Record]:
    """The pages of one archive. After broken bytes, reading goes on at the next compressed record, if there is one."""
    with _open(file) as stream:
        start: int | None = 0
        while start is not None:
            stream.seek(start)
            last = start
            try:
                for record in ArchiveIterator(stream, parse_http=True, auto_decode="all"):
                    last = record.stream_pos
                    try:
                        page = _page(record, file, last, max_bytes)
                    except Skip as skip:
                        drop(str(skip))
                    except (OSError, ValueError, RuntimeError):
                        drop("unreadable payload")
                    else:
                        yield page
                start = None
            except (OSError, ValueError, RuntimeError, EOFError):
                drop("broken archive")
                start = _next_member(stream, last + 1)


def _page(record: WarcRecord, file: str, offset: int, max_bytes: int) -> Record:
    kind = record.record_type
    if not kind & PAGE_TYPES:
        raise Skip(f"no page: {str(kind).rsplit('.', 1)[-1]} record")
    url = (record.headers.get("WARC-Target-URI") or "").strip().strip("<>")
    if not url.startswith(("http://", "https://")):
        raise Skip("no web address")
    if kind & WarcRecordType.response and not record.is_http:
        raise Skip("no HTTP response")
    if record.is_http and record.http_headers and record.http_headers.status_code not in (None, 200):
        raise Skip("HTTP status not 200")
    content_type = _content_type(record)
    is_html = content_type in HTML_TYPES
    if not is_html and not (kind & WarcRecordType.conversion and content_type == "text/plain"):
        raise Skip("not HTML")
    content = record.reader.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise Skip("page too large")
    charset = record.http_charset if record.is_http else "utf-8" if not is_html else None
    return Record(url, content, is_html, charset, file, offset)


def _content_type(record: WarcRecord) -> str:
    declared = record.http_content_type if record.is_http else record.headers.get("Content-Type")
    # A server that declares nothing mostly serves HTML; the extraction drops what turns out binary.
    return (declared or "text/html").split(";")[0].strip().lower()


def _next_member(stream: IO[bytes], start: int) -> int | None:
    """Offset at or after `start` of a gzip member that holds a WARC record; None when there is none."""
    stream.seek(start)
    block, base = stream.read(SEARCH_BLOCK), start
    while len(block) > len(GZIP_MAGIC):
        at = block.find(GZIP_MAGIC)
        while at >= 0:
            stream.seek(base + at)
            if _is_warc_member(stream.read(1024)):
                return base + at
            at = block.find(GZIP_MAGIC, at + 1)
        base += len(block) - len(GZIP_MAGIC) + 1  # a magic may lie across two blocks
        stream.seek(base)
        block = stream.read(SEARCH_BLOCK)
    return None


def _is_warc_member(head: bytes) -> bool:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 5) == b"WARC/"
    except zlib.error:
        return False


def _open(file: str) -> IO[bytes]:
    if "://" not in file:
        return open(file, "rb")
    import fsspec  # type: ignore[import-untyped]

    return cast(IO[bytes], fsspec.open(file, "rb").open())


def _remote_files(pattern: str) -> list[str]:
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(pattern)
    return [filesystem.unstrip_protocol(p) for p in filesystem.glob(path)]
