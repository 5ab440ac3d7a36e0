"""The two normalisations: what they make equal and what they keep apart."""

import doctest
from pathlib import Path

import corpus.normalize
from corpus.config import ReadConfig
from corpus.crawl import extract_pages
from corpus.hashing import token_hashes
from corpus.normalize import for_classifier, for_matching, is_chinese


def test_the_documented_examples_hold() -> None:
    assert doctest.testmod(corpus.normalize).failed == 0


def test_matching_ignores_case_spacing_punctuation_and_width() -> None:
    plain = for_matching("Janet sells 16 - 3 = 13 eggs, daily.")
    assert for_matching("JANET   sells\n１６−３=13 eggs daily") == plain


def test_matching_reads_a_number_however_it_is_grouped() -> None:
    assert for_matching(r"1,000 １,０００ 1{,}000 1,\!000 ١٠٠٠") == ["1000"] * 5
    assert for_matching("(1,2,3) 1,0000") == ["1", "2", "3", "1", "0000"]


def test_matching_takes_chinese_character_by_character() -> None:
    assert for_matching("买了3盒 茶叶") == for_matching("买了 ３ 盒茶叶") == ["买", "了", "3", "盒", "茶", "叶"]


def test_the_hashes_are_those_of_the_tokens(repository: Path) -> None:
    """Position by position, equal hashes stand where equal tokens stand: over all tokens of real pages and odd text."""
    pages = [t for _, t in extract_pages(str(repository / "examples/pages.warc.gz"), ReadConfig(), lambda reason: None)]
    token_of: dict[int, str] = {}
    for text in [*pages, "", "a\u00adb １,０００ \\frac{\\pi}2 x²e\u0301 日本の数学 3١", "e\u0332gg's ﬁnite İ _ a_b"]:
        tokens = for_matching(text)
        hashes = token_hashes(text).tolist()
        assert len(hashes) == len(tokens)
        assert all(token_of.setdefault(h, t) == t for h, t in zip(hashes, tokens, strict=True))
    assert len(set(token_of.values())) == len(token_of) > 5000


def test_classifier_text_is_one_line_and_idempotent() -> None:
    line = for_classifier("A\nB\r\n\tC \\alpha １２")
    assert "\n" not in line
    assert for_classifier(line) == line


def test_language() -> None:
    assert is_chinese("一元二次方程 $ax^2+bx+c=0$ 的求根公式")
    assert not is_chinese("The word 数学 means mathematics")
    assert not is_chinese("1 + 2 = 3")
