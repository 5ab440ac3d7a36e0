"""Numbers as answers write them, exactly: `1,234.5`, `3 1/2`, `28%`, `1.5*10^3`, `二十五`; and when two are equal.

In: a normalized string (evals.normal_form). Out: a Number with its value as a Fraction, or None for anything else.
"""

import re
from fractions import Fraction
from typing import NamedTuple

TOLERANCE = Fraction(5, 10**7)  # a decimal may differ by half a unit of the sixth digit after the point
RELATIVE_TOLERANCE = Fraction(1, 10**4)  # ... which must not swallow a small number whole
MAX_DIGITS = 400

_THOUSANDS = re.compile(r"^[-+]?[1-9]\d{0,2}(?:(?:,\d{3})+|(?: \d{3})+)(?:\.\d*)?$", re.ASCII)
_DECIMAL = re.compile(
    r"^([-+]?)(\d+\.?\d*|\.\d+)(?:(?:\\times|\\cdot|\*)10\^\{?([-+]?\d{1,3})\}?|[eE]([-+]?\d{1,3}))?$", re.ASCII
)
_FRACTION = re.compile(
    r"^([-+]?)(?:\\frac\{(-?[\d.]+)\}\{(-?[\d.]+)\}|\\frac(\d)(\d)|\(?(-?[\d.]+)\)?/\(?(-?[\d.]+)\)?)$", re.ASCII
)
_MIXED = re.compile(r"^([-+]?)(\d+)(?:\\frac\{(\d+)\}\{(\d+)\}|\\frac(\d)(\d)|(?: +|又)(\d+)/(\d+))$", re.ASCII)
_REPEATING = re.compile(r"^([-+]?)(\d*)\.(\d*)\\(?:overline|bar)\s*(?:\{(\d+)\}|(\d))$", re.ASCII)
_BASED = re.compile(r"^\(?(-?\d[\dA-F.]*)\)?_\{?(\d+|[a-z]{3,7})\}?$", re.ASCII)
_BASES = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
}
_BRACKETED = re.compile(r"^\(([-+]?[\d.]+)\)$|^\{([-+]?[\d.]+)\}$", re.ASCII)
_CHINESE = re.compile(r"^负?[零〇一二两三四五六七八九十百千万亿]+$")
_CHINESE_FRACTION = re.compile(r"^(负?)([零一二两三四五六七八九十百千]+)分之([零一二两三四五六七八九十百千]+)$")
_CHINESE_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}


class Number(NamedTuple):
    """An exact value, whether it was written as a decimal, and whether a per cent sign followed."""

    value: Fraction
    decimal: bool
    percent: bool


def parse_number(s: str) -> Number | None:
    """A normalized string as a number; None when it is none."""
    if len(s) > MAX_DIGITS:
        return None
    percent = s.endswith("%")
    s = s.removesuffix("%").removesuffix("\\") if percent else s
    if _THOUSANDS.match(s):
        s = re.sub("[, ]", "", s)
    if bracketed := _BRACKETED.match(s):
        s = bracketed[1] or bracketed[2]
    value: Fraction | None = None
    if m := _DECIMAL.match(s):
        value = Fraction(m[1] + m[2]) * Fraction(10) ** int(m[3] or m[4] or 0)
    elif m := _MIXED.match(s):
        top, bottom = [int(g) for g in m.groups()[2:] if g is not None]
        value = (int(m[2]) + Fraction(top, bottom)) * (-1 if m[1] == "-" else 1) if bottom else None
    elif m := _REPEATING.match(s):
        digits = m[4] or m[5]
        value = (
            Fraction(f"{m[2] or 0}.{m[3]}0") + Fraction(int(digits), (10 ** len(digits) - 1) * 10 ** len(m[3]))
        ) * (-1 if m[1] == "-" else 1)
        return Number(value, False, percent)
    elif m := _FRACTION.match(s):
        value = _quotient(m[1], *[g for g in m.groups()[1:] if g is not None])
    elif not s.isascii():
        value = _chinese(s)
    return None if value is None else Number(value, "." in s, percent)


def digits_and_base(s: str) -> tuple[str, str] | None:
    """`2516_{8}` -> ("2516", "8"); None for what names no base."""
    m = _BASED.match(s)
    return (m[1], _BASES.get(m[2], m[2])) if m else None


def same_number(a: Number, b: Number) -> bool:
    """Exactly equal, or within the tolerance when one was written as a decimal; 28% equals 28 (a unit) and 0.28."""
    if a.percent != b.percent:
        share, plain = (a, b) if a.percent else (b, a)
        share = share._replace(percent=False)
        hundredth = Number(share.value / 100, True, False)
        return same_number(share, plain) or same_number(hundredth, plain)
    gap = abs(a.value - b.value)
    close = gap <= TOLERANCE and gap <= RELATIVE_TOLERANCE * abs(a.value)
    return gap == 0 or ((a.decimal or b.decimal) and close)


def _quotient(sign: str, top: str, bottom: str) -> Fraction | None:
    if top.count(".") > 1 or bottom.count(".") > 1 or not re.search(r"\d", top) or not re.search(r"[1-9]", bottom):
        return None
    return Fraction(top) / Fraction(bottom) * (-1 if sign == "-" else 1)


def _chinese(s: str) -> Fraction | None:
    """`二十五` -> 25, `三分之一` -> 1/3; None when it is no numeral."""
    if m := _CHINESE_FRACTION.match(s):
        bottom = _whole(m[2])
        return Fraction(_whole(m[3]), bottom) * (-1 if m[1] else 1) if bottom else None
    return Fraction(_whole(s.removeprefix("负")) * (-1 if s[0] == "负" else 1)) if _CHINESE.match(s) else None


def _whole(s: str) -> int:
    total, section, digit = 0, 0, 0
    for c in s:
        if c in _CHINESE_DIGITS:
            digit = 10 * digit + _CHINESE_DIGITS[c] if digit else _CHINESE_DIGITS[c]  # 二〇二六 is read digit by digit
        elif c in _CHINESE_UNITS:
            section, digit = section + (digit or 1) * _CHINESE_UNITS[c], 0
        else:
            total, section, digit = (total + section + digit) * (10**4 if c == "万" else 10**8), 0, 0
    return total + section + digit
