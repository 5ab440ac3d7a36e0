"""The two normalisations: what they make equal and what they keep apart."""

import doctest

import corpus.normalize
from corpus.normalize import for_classifier, for_matching, is_chinese


def test_the_documented_examples_hold() -> None:
    assert doctest.testmod(corpus.normalize).failed == 0


def test_matching_ignores_case_spacing_punctuation_and_width() -> None:
    plain = for_matching("Janet sells 16 - 3 = 13 eggs, daily.")
    assert for_matching("JANET   sells\n１６−３=13 eggs daily") == plain


def test_matching_takes_chinese_character_by_character() -> None:
    assert for_matching("买了3盒 茶叶") == for_matching("买了 ３ 盒茶叶") == ["买", "了", "3", "盒", "茶", "叶"]


def test_classifier_text_is_one_line_and_idempotent() -> None:
    line = for_classifier("A\nB\r\n\tC \\alpha １２")
    assert "\n" not in line
    assert for_classifier(line) == line


def test_language() -> None:
    assert is_chinese("一元二次方程 $ax^2+bx+c=0$ 的求根公式")
    assert not is_chinese("The word 数学 means mathematics")
    assert not is_chinese("1 + 2 = 3")
