"""Duplicates: the same URL, the same text, nearly the same text. The result does not depend on the order of the pages.

Comes in: the crawl's pages. Goes out: for each page the reason it is a duplicate, or none. Of every group of duplicates
the page with the smallest (canonical URL, hash of the text) stays, whichever was read first.

MinHash-LSH: a page is its set of shingles (word 5-grams of English, character 8-grams of Chinese). A signature of
b bands of r rows makes two pages of Jaccard similarity s candidates with probability 1 - (1 - s^r)^b: with 16 bands of
8 rows 0.03 at s = 0.45, 0.43 at 0.65, 0.95 at 0.8, 1.00 at 0.9. A candidate pair is one page when the similarity
estimated from the whole signature reaches the threshold; groups are the connected components of such pairs.
"""

import hashlib
from collections.abc import Iterable, Sequence
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rensa import RMinHash, RMinHashLSH

from corpus.config import DedupConfig
from corpus.normalize import for_matching
from corpus.pages import Page

TRACKING = ("utm_", "fbclid", "gclid", "msclkid", "phpsessid", "jsessionid", "sessionid")
SIGNATURE_BATCH = 256


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


def shingles(text: str, chinese: bool, config: DedupConfig) -> set[str]:
    """The shingles of a text; a text shorter than one shingle is one shingle."""
    tokens = for_matching(text)
    if chinese:
        joined, n = "".join(tokens), config.char_shingle
        return {joined[i : i + n] for i in range(max(1, len(joined) - n + 1))}
    n = config.word_shingle
    return {" ".join(tokens[i : i + n]) for i in range(max(1, len(tokens) - n + 1))}


class Duplicates:
    """Collects what is needed to know a page again, then finds the groups of duplicates."""

    def __init__(self) -> None:
        self._ranks: list[tuple[str, bytes, str, int]] = []  # (key, hash of text, file, offset): smallest stays

    def add(self, page: Page) -> None:
        """Note page number 0, 1, 2, ..."""
        digest = hashlib.blake2b(" ".join(for_matching(page.text)).encode(), digest_size=16).digest()
        self._ranks.append((page.key, digest, page.file, page.offset))

    def exact(self) -> dict[int, str]:
        """Page number -> reason, for the pages whose URL or text an earlier-ranked page has."""
        reasons: dict[int, str] = {}
        urls: set[str] = set()
        texts: set[bytes] = set()
        for number in self.in_order(range(len(self._ranks))):
            key, digest, _, _ = self._ranks[number]
            if key in urls:
                reasons[number] = "duplicate URL"
            elif digest in texts:
                reasons[number] = "duplicate text"
            else:
                texts.add(digest)
            urls.add(key)
        return reasons

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Page numbers by rank, an order that does not depend on the order of reading."""
        return sorted(numbers, key=self._ranks.__getitem__)


def near_duplicates(pages: Iterable[Page], config: DedupConfig) -> set[int]:
    """Positions, in `pages` ordered by rank, of those that nearly repeat an earlier one."""
    lsh = RMinHashLSH(config.threshold, config.num_perm, config.bands)
    hashes: list[RMinHash] = []
    parent: list[int] = []
    for position, minhash in enumerate(_signatures(pages, config)):
        parent.append(position)
        for other in sorted(lsh.query(minhash)):
            if minhash.jaccard(hashes[other]) >= config.threshold:
                _join(parent, other, position)
        lsh.insert(position, minhash)
        hashes.append(minhash)
    return {p for p in range(len(parent)) if _root(parent, p) != p}


def _signatures(pages: Iterable[Page], config: DedupConfig) -> Iterable[RMinHash]:
    batch: list[list[str]] = []
    for page in pages:
        batch.append(sorted(shingles(page.text, page.chinese, config)))
        if len(batch) == SIGNATURE_BATCH:
            yield from _minhash(batch, config)
            batch = []
    yield from _minhash(batch, config)


def _minhash(batch: Sequence[list[str]], config: DedupConfig) -> list[RMinHash]:
    return list(RMinHash.from_token_sets(batch, config.num_perm, config.seed)) if batch else []


def _root(parent: list[int], x: int) -> int:
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


def _join(parent: list[int], a: int, b: int) -> None:
    """Union; the smaller position, that is the better rank, becomes the root."""
    low, high = sorted((_root(parent, a), _root(parent, b)))
    parent[high] = low
