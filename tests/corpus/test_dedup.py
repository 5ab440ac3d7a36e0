"""Duplicates: URLs, exact texts, near-duplicates; whatever the order of the pages."""

import random

import pytest

from corpus.config import DedupConfig
from corpus.dedup import (
    Duplicates,
    canonical_url,
    domain_of,
    near_duplicates,
    shingles,
    signatures,
    text_digest,
)
from corpus.pages import Page

WORDS = [f"word{i}" for i in range(2000)]


def page(key: str, text: str, chinese: bool = False) -> Page:
    return Page(key, f"http://{key}", text, chinese, "file", 0)


def repeated(pages: list[Page]) -> set[int]:
    """Positions of the pages, given by rank, that nearly repeat an earlier one."""
    signed = signatures([(p.text, p.chinese) for p in pages], DedupConfig())
    return set(near_duplicates(signed, range(len(pages)), DedupConfig()))


def text_of(seed: int, words: int = 300) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://www.Example.org/a/", "example.org/a"),
        ("http://example.org:80/a#part", "example.org/a"),
        ("http://example.org:8080/a", "example.org:8080/a"),
        ("http://example.org/?b=2&a=1&utm_medium=x&fbclid=y", "example.org?a=1&b=2"),
        ("http://example.org/%e4%b8%80", "example.org/%E4%B8%80"),
        ("http://example.org/a b", "example.org/a%20b"),
        ("http://example.org:port/", "http://example.org:port/"),
        ("http://[broken", "http://[broken"),
    ],
)
def test_canonical_url(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical
    assert domain_of(canonical_url("https://www.example.org?x=1")) == "example.org"


def test_same_url_and_same_text_keep_the_first_by_rank() -> None:
    pages = [page("b.org", "One two."), page("a.org", "ONE two"), page("c.org", "four"), page("c.org", "four")]
    duplicates = Duplicates()
    for p in pages:
        duplicates.add(p, text_digest(p.text))
    assert duplicates.exact() == {0: ("duplicate text", 1), 3: ("duplicate URL", 2)}


def test_near_duplicates_are_found_and_others_are_not() -> None:
    base = text_of(1)
    changed = base.split()
    changed[150] = "different"
    pages = [page("a", base), page("b", " ".join(changed)), page("c", text_of(2)), page("d", base + " and a tail")]
    assert repeated(pages) == {1, 3}


def test_chinese_near_duplicates_are_found_by_characters() -> None:
    characters = [chr(0x4E00 + i) for i in range(3000)]
    text = "".join(random.Random(3).choices(characters, k=400))
    pages = [page("a", text, True), page("b", text[:200] + "。" + text[200:], True), page("c", text[::-1], True)]
    assert repeated(pages) == {1}


def test_the_result_does_not_depend_on_the_order() -> None:
    texts = [text_of(i // 3) + (" tail" * (i % 3)) for i in range(60)]
    pages = [page(f"site{i:02}.org", t) for i, t in enumerate(texts)]
    results = set()
    for seed in range(4):
        shuffled = random.Random(seed).sample(pages, len(pages))
        duplicates = Duplicates()
        for p in shuffled:
            duplicates.add(p, text_digest(p.text))
        exact = duplicates.exact()
        unique = duplicates.in_order(n for n in range(len(shuffled)) if n not in exact)
        near = repeated([shuffled[n] for n in unique])
        results.add(tuple(shuffled[n].key for p, n in enumerate(unique) if p not in near))
    assert len(results) == 1
    assert len(results.pop()) == 20


def test_similarity_below_the_threshold_is_kept() -> None:
    """Two texts that share half their shingles (Jaccard about 1/3) are two pages."""
    half = text_of(5, 200)
    pages = [page("a", half + " " + text_of(6, 200)), page("b", half + " " + text_of(7, 200))]
    assert repeated(pages) == set()


def test_short_texts_are_one_shingle() -> None:
    lengths = {t: len(shingles(t, c, DedupConfig())) for t, c in (("two words", False), ("短", True), ("...", False))}
    assert lengths == {"two words": 1, "短": 1, "...": 0}


def test_texts_without_a_token_are_no_near_duplicates_of_others() -> None:
    pages = [page("a", text_of(1)), page("b", "..."), page("c", text_of(2))]
    assert repeated(pages) == set()
