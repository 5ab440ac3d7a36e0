"""The small grammar of values: what it tells apart, what it takes for the same, and what it leaves to a parser."""

import random
import time

import pytest

from evals.expressions import same_value, value


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"\sqrt[3]{8}", "2"),
        (r"\frac12", r"\frac{2}{4}"),
        ("x^2-1", "(x-1)(x+1)"),
        ("9c+6", "6+9c"),
        (r"2\pi r", r"2\cdot r\pi"),
        ("2^{10}", "1024"),
        ("-2^2", "-4"),
        ("1/2x", r"\frac{x}{2}"),
        (r"\frac{1+\sqrt{5}}{2}", r"\frac{1}{2}+\frac{\sqrt5}{2}"),
        (r"(1+i)^2", "2i"),
        (r"e^{i\pi}", "-1"),
    ],
)
def test_same_function_otherwise_written(a: str, b: str) -> None:
    assert same_value(a, b) is True


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("x", "y"),
        ("x+1", "x-1"),
        ("15", "6+9h"),
        (r"\sqrt{2}", "1.41"),
        (r"\sqrt{x^2}", "x"),
        ("5", r"5\pi"),
        ("2^3", "6"),
    ],
)
def test_other_functions(a: str, b: str) -> None:
    assert same_value(a, b) is False


@pytest.mark.parametrize(
    "text",
    [
        "", "3 1/2", r"2+3\frac{1}{2}", "f(x)", "I(0)+1",
        "2^10", "1,2", "x=5", "x_1", r"\sin x", "6and8", "50%", r"\sqrt[3]{-8}", "1/0", "(1", "1)", "^2",
        "+", "x" * 201,
        "(" * 100 + "1" + ")" * 100, "2^{1001}", r"10^{300}\cdot10^{300}", r"\frac{1}", "__import__('os')",
    ],
)  # fmt: skip
def test_what_lies_outside_the_grammar_has_no_value(text: str) -> None:
    assert value(text) is None


def test_decimals_are_only_told_apart() -> None:
    """How many digits make a decimal equal is the judge's to say."""
    assert same_value(r"\frac{1}{3}", "0.3333333") is None
    assert same_value(r"\frac{1}{3}", "0.34") is False


def test_values_are_those_of_python(seed: int = 7) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        a, b, c, d = (rng.randint(1, 99) for _ in range(4))
        found = value(rf"\frac{{{a}+{b}\sqrt{{{c}}}}}{{{d}}}-{a}^{{2}}/{b}")
        assert found is not None
        assert found == pytest.approx((a + b * c**0.5) / d - a**2 / b, rel=1e-13)


def test_hostile_text_costs_nothing() -> None:
    began = time.monotonic()
    for text in (
        "9^" * 60 + "9",
        "((((" * 50,
        r"\frac" * 40,
        r"\sqrt{" * 33 + "2" + "}" * 33,
        "x" * 100_000,
        "-" * 200,
    ):
        value(text)
    assert time.monotonic() - began < 1.0
