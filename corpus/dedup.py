"""Duplicates: the same URL, the same text, nearly the same text. The result does not depend on the order of the pages.

Comes in: the crawl's pages. Goes out: for each page the reason it is a duplicate, and of which page it is one, or none.
Of every group of duplicates the page with the smallest (canonical URL, hash of the text) stays, whoever was read first.

MinHash-LSH: a page is its set of shingles (word 5-grams of English, character 8-grams of Chinese). A signature of
b bands of r rows makes two pages of Jaccard similarity s candidates with probability 1 - (1 - s^r)^b: with 16 bands of
8 rows 0.03 at s = 0.45, 0.40 at 0.65, 0.95 at 0.8, 1.00 at 0.9. The pages that agree in a band form a bucket. In each,
the first page by rank takes all those whose similarity to it, estimated from the whole signatures, reaches the
threshold; the first of the others takes its like, and so on. Groups are what is connected by such pairs in any band.
The signatures may lie on disk: one band of them, with its order under 100 bytes a page, is in memory at a time.
"""

import hashlib
from collections.abc import Iterable, Sequence
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import numpy as np
import numpy.typing as npt
from rensa import RMinHash

from corpus.config import DedupConfig
from corpus.hashing import Hashes, character_codes, ngram_hashes, token_hashes
from corpus.pages import Page

TRACKING = ("utm_", "fbclid", "gclid", "msclkid", "phpsessid", "jsessionid", "sessionid")
Signatures = npt.NDArray[np.uint32]  # [pages, num_perm]


def canonical_url(url: str) -> str:
    """One name for the addresses that serve the same page.

    No scheme, `www.`, default port, user, fragment, tracking parameters or trailing slash; host in lower case,
    percent-encoding and the order of the parameters made uniform.

    >>> canonical_url("HTTP://www.Example.org:80/a%7Eb/?utm_source=x&q=2&p=1#top")
    'example.org/a~b?p=1&q=2'
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").removeprefix("www.").rstrip("."), parts.port
    except ValueError:  # a port that is no number, a bad IPv6 address: the text as it stands
        return url.strip()
    port_text = f":{port}" if port not in (None, 80, 443) else ""
    path = quote(unquote(parts.path), safe="/~!$&'()*+,;=:@-._").rstrip("/")
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    query = sorted((k, v) for k, v in parameters if not k.lower().startswith(TRACKING))
    return f"{host}{port_text}{path}" + (f"?{urlencode(query)}" if query else "")


def domain_of(key: str) -> str:
    """The host of a canonical URL: the paper's "base URL"."""
    return key.split("/", 1)[0].split("?", 1)[0]


def shingles(text: str, chinese: bool, config: DedupConfig) -> Hashes:
    """Hashes of the different shingles of a text, sorted; a text shorter than one shingle is one shingle."""
    items = character_codes(text) if chinese else token_hashes(text)
    return _shingles(items, config.char_shingle if chinese else config.word_shingle)


def _shingles(items: Hashes, n: int) -> Hashes:
    return np.unique(ngram_hashes(items, min(n, max(1, len(items)))))


def text_digest(text: str) -> bytes:
    """Equal for two texts with the same tokens. 16 bytes."""
    return hashlib.blake2b(token_hashes(text).tobytes(), digest_size=16).digest()


def signatures(batch: Sequence[tuple[str, bool]], config: DedupConfig) -> Signatures:
    """MinHash signatures of (text, is it Chinese). [texts, num_perm]"""
    sets = [shingles(text, chinese, config) for text, chinese in batch]
    offsets = np.cumsum([0, *map(len, sets)], dtype=np.uint64)
    flat = np.concatenate(sets) if sets else np.empty(0, dtype=np.uint64)
    rows = RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, config.num_perm, config.seed).to_rows()
    return np.array(rows, dtype=np.uint32).reshape(len(sets), config.num_perm)


class Duplicates:
    """Collects what is needed to know a page again, then finds the groups of duplicates."""

    def __init__(self) -> None:
        self._ranks: list[tuple[str, bytes, str, int]] = []  # (key, hash of text, file, offset): smallest stays

    def add(self, page: Page, digest: bytes) -> None:
        """Note page number 0, 1, 2, ... with the digest of its text."""
        self._ranks.append((page.key, digest, page.file, page.offset))

    def exact(self) -> dict[int, tuple[str, int]]:
        """Page number -> (reason, the page that stays), for pages whose URL or text an earlier-ranked page has."""
        reasons: dict[int, tuple[str, int]] = {}
        urls: dict[str, int] = {}
        texts: dict[bytes, int] = {}
        for number in self.in_order(range(len(self._ranks))):
            key, digest, _, _ = self._ranks[number]
            if key in urls:
                reasons[number] = ("duplicate URL", urls[key])
            elif digest in texts:
                reasons[number] = ("duplicate text", texts[digest])
            else:
                texts[digest] = number
            urls.setdefault(key, number)
        return reasons

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Page numbers by rank, an order that does not depend on the order of reading."""
        return sorted(numbers, key=self._ranks.__getitem__)


def near_duplicates(signed: Signatures, order: Sequence[int], config: DedupConfig) -> dict[int, int]:
    """Position -> position of the page that stays, for those in `order` (rows of `signed`, by rank) that repeat it."""
    rows = np.asarray(order, dtype=np.int64)
    parent = np.arange(len(rows))
    width = config.num_perm // config.bands
    for band in range(config.bands):
        hashes = _band_hashes(signed[rows, band * width : (band + 1) * width])
        for bucket in _buckets(hashes):
            _join_alike(bucket, signed[rows[bucket]], parent, config.threshold)
    found = ((p, _root(parent, p)) for p in range(len(parent)))
    return {position: kept for position, kept in found if kept != position}


def _band_hashes(band: Signatures) -> Hashes:
    """One hash for each row. [pages]"""
    total = np.zeros(len(band), dtype=np.uint64)
    for column in band.T:
        total = (total + column.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return total


def _buckets(hashes: Hashes) -> Iterable[npt.NDArray[np.int64]]:
    """Positions with equal hashes, each group of two or more in ascending order."""
    order = np.argsort(hashes, kind="stable")
    changes = np.flatnonzero(np.diff(hashes[order])) + 1
    starts, ends = np.append(0, changes), np.append(changes, len(order))
    large = ends - starts > 1
    return (order[start:end] for start, end in zip(starts[large], ends[large], strict=True))


def _join_alike(bucket: npt.NDArray[np.int64], rows: Signatures, parent: npt.NDArray[np.int64], least: float) -> None:
    """Each first page left takes those like it; `rows` are the bucket's signatures. [bucket, num_perm]"""
    while len(bucket) > 1:
        alike = (rows[1:] == rows[0]).mean(axis=1) >= least
        for other in bucket[1:][alike]:
            _join(parent, int(bucket[0]), int(other))
        bucket, rows = bucket[1:][~alike], rows[1:][~alike]


def _root(parent: npt.NDArray[np.int64], x: int) -> int:
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = int(parent[x])
    return x


def _join(parent: npt.NDArray[np.int64], a: int, b: int) -> None:
    """Union; the smaller position, that is the better rank, becomes the root."""
    low, high = sorted((_root(parent, a), _root(parent, b)))
    parent[high] = low
