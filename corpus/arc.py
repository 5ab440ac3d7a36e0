"""ARC, the archive format before WARC, read as WARC: each record of an ARC file is framed anew as a WARC response.

An ARC record is one line (`URL IP-address date content-type [more fields] length`) and `length` bytes: for the web, the
HTTP response as the server sent it. The format has no end mark and no magic number, so a record of the wrong length is
followed by bytes that mean nothing; reading goes on at the next line that looks like the start of a record.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, cast

# The address and the date are what tells such a line from text; URLs and content types may hold spaces.
HEADER = re.compile(
    rb"(?P<url>[a-z]+:\S.*?) (?:[\d.]{7,15}|[0-9a-fA-F:]{3,39}|-) \d{8,18} (?P<type>.+?) (?P<length>\S+)"
)
MAX_LINE = 16 << 10
BLOCK = 1 << 20


def warc_response(url: bytes, response: bytes) -> bytes:
    """A WARC record around an HTTP response."""
    return (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %b\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
    ) % (url, len(response), response)


def arc_records(
    stream: IO[bytes], packed: bool, max_bytes: int, drop: Callable[[str], None]
) -> Iterator[tuple[int, bytes]]:
    """(offset, WARC record) for each record of at most `max_bytes`; offsets count bytes after decompression."""
    source = cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if packed else stream
    in_rubbish, at = False, 0
    try:
        while line := source.readline(MAX_LINE):
            offset, at = at, at + len(line)
            found = HEADER.fullmatch(line.strip())
            if found is None:
                if line.strip() and not in_rubbish:
                    drop("broken archive")
                    in_rubbish = True
                continue
            length = found["length"]
            in_rubbish = not length.isdigit()
            if in_rubbish:
                drop("broken archive")
            elif found["url"].startswith(b"filedesc:"):
                drop("no page: filedesc record")
                at += _skip(source, int(length))
            elif int(length) > max_bytes:
                drop("page too large")
                at += _skip(source, int(length))
            else:
                payload = source.read(int(length))
                at += len(payload)
                yield offset, warc_response(found["url"], payload)
    except (OSError, EOFError, zlib.error):
        drop("broken archive")


def _skip(source: IO[bytes], length: int) -> int:
    """Read past `length` bytes; returns how many there were."""
    left = length
    while left and (block := source.read(min(left, BLOCK))):
        left -= len(block)
    return length - left
