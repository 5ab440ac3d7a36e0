r"""The normal form of an answer: signs, sizing, spaces, units and text boxes that change no meaning are gone.

In: an answer as a person or a model writes it. Out: text that can be compared letter by letter, or be parsed.
"""

import re
from typing import NamedTuple

from evals.extraction import full_width_to_ascii
from evals.units import multiplied, split_unit

_SIGNS = {
    **{"π": r"\pi ", "∞": r"\infty ", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "±": r"\pm "},
    **{"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", "°": r"^\circ "},
    **dict.fromkeys("‐‑‒–—﹣", "-"),
    **{"²": "^2", "³": "^3", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "、": ",", "′": "'"},
    **{chr(0x2460 + i): rf"\textcircled{{{i + 1}}}" for i in range(9)},  # ① to ⑨
    **dict.fromkeys("\u00a0\u2009\u202f\u2002\u2003", " "),
    **dict.fromkeys("\u200b\u2060\ufeff", ""),
}
_SIGN_TABLE = str.maketrans(_SIGNS)
_ROOT = re.compile(r"√\s*(?:(\d+(?:\.\d+)?|[a-zA-Z])|(?=[({]))|(?<![a-zA-Z\\])sqrt(?=[({])")
_NAMED_SIGN = re.compile(r"(?<![a-zA-Z\\{])(?:(pi|ln|log|sin|cos|tan)(?=\s?[\d(\\]|$)|(infinity)(?![a-zA-Z]))")
_SIZING = re.compile(r"\\(?:left|right|[bB]ig+[lr]?)(?![a-zA-Z])|\\displaystyle|\\!")
_SPACE = re.compile(r"(?<!\\)\\[,;: ]|\\q?quad(?![a-zA-Z])|~")
_FRAC = re.compile(r"\\[dtc]frac")
_TEXT = re.compile(r"\\(?:text|textbf|textnormal|textrm|textit|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z", re.ASCII)
_ALL_TEXT = re.compile(r"^\$?\\text\s*\{([^{}]*)\}\$?$")
_OTHER_SPELLINGS = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\\langle(?![a-zA-Z])", "("),
        (r"\\rangle(?![a-zA-Z])", ")"),
        (r"\\mathbb\s*([A-Z])", r"\\mathbb{\1}"),
        (r"\\prime(?![a-zA-Z])", "'"),
        (r"^(?:一共|总共|共)(?:有|是)?(?=[-\d])", ""),
        (r"负(?=\d)", "-"),
        (r"\\(?:leq?|leqslant)(?![a-zA-Z])", "<="),
        (r"\\(?:geq?|geqslant)(?![a-zA-Z])", ">="),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"^([a-zA-Z])\s*\\approx\s*", r"\1="),
        (r"(?<=.)\\approx.*", ""),  # the exact value stands before it
    )
]
_DEGREES = re.compile(r"(?:\^\{?\\circ\}?|\\degree)(?:\s*(?:\\(?:text|mathrm)\s*\{\s*)?[CF]\b\}?)?")
_PERCENT = re.compile(r"(?<=[\d}])\s*(?:\\(?:text|mathrm)\s*\{\s*)?(?:\\?%|(?:percent|pct)\b)\s*\}?")
_CURRENCY = re.compile(r"^([-+]?)\s*(?:US)?\s*(\\\$|[$€£¥￥])\s*(?=[-\d.])(?!.*\$)")
_PRICE_BEHIND = re.compile(r"^([^$]*\d)\s*\\?\$$")
_CURRENCIES = {"$": "dollar", "€": "euro", "¥": "yuan", "￥": "yuan"}
_FULL_STOP = re.compile(r"(?<!\.)\s*\.$")
_ARTICLE = re.compile(r"^(?:an?|the) (?=[a-z]{3})", re.IGNORECASE)
_CHOICE = re.compile(r"^\(?([A-Ea-e])[).:]?$")
_CHOICE_AND_TEXT = re.compile(r"^(?:\(([A-E])\)|([A-E])[.:)])\s*(?=[\w\\$])(?!\s*(?:or|and)\b)")
_CHOSEN = re.compile(r"^(?:(?:the )?(?:option|choice|answer)|选项|故?选择?)\s*:?\s*\(?([A-E])\)?$", re.IGNORECASE)
_WORD = re.compile(r"^(?:[a-zA-Z]{3,}|no)(?: [a-zA-Z]+)*$", re.IGNORECASE)
_NOTHING = re.compile(
    r"^(?:there (?:is|are) )?(?:none|(?:no|the empty) (?:real )?(?:solutions?|set)|empty set|无解|空集)$"
)
_REALS = re.compile(r"^(?:all )?(?:real numbers|reals)$|^(?:全体)?实数集?$")
_BETWEEN = re.compile(r"(?<=[\d)}\]])\s*,?\s*(?:\b(?:and|or)\b|[或和])\s*(?=[-\d\\({])|(?<=[\d)}\]]);\s*(?=[-\d\\({])")


class Normal(NamedTuple):
    """An answer's normal form, and the name of its unit where it has one that is known ("cm", "dollar")."""

    text: str
    unit: str = ""
    measured: bool = False  # whether any unit stood behind it
    letter: bool = False  # whether that was a letter close behind the number, which may be a variable


def normalize(answer: str) -> str:
    """`answer` without what changes no meaning: dollar signs, sizing, spaces, units, text boxes, case of words."""
    return normal_form(answer).text


def normal_form(answer: str) -> Normal:
    """`normalize`, and the unit."""
    if _PLAIN_NUMBER.match(answer):
        return Normal(answer)
    s = _unwrap(unescape(plain_signs(_ALL_TEXT.sub(r"\1", answer.strip().strip("*`")))))
    s = _SIZING.sub("", _FRAC.sub(r"\\frac", s)).replace("{,}", ",")
    if "\\" in s or not s.isascii():
        for pattern, plain in _OTHER_SPELLINGS:
            s = pattern.sub(plain, s)
    s = _PERCENT.sub(r"%", _DEGREES.sub("", _SPACE.sub(" ", s).strip()))
    s = _FULL_STOP.sub("", s)
    body, unit, measured = split_unit(multiplied(s))
    letter = measured and re.fullmatch(r"[a-zA-Z](?:\^.*)?", s[len(body) :]) is not None
    s = body
    s = re.sub(" +", " ", _TEXT.sub(r" \1 ", s)).strip()
    if currency := _CURRENCY.search(s):
        unit = unit or _CURRENCIES.get(currency[2].removeprefix("\\"), "")
        s = _CURRENCY.sub(r"\1", s)
    s = _PRICE_BEHIND.sub(r"\1", s)
    if choice := _CHOICE.match(s) or _CHOSEN.match(s):
        return Normal(choice[1].upper())
    if _WORD.match(s := _ARTICLE.sub("", s)) or not s.isascii():
        if _NOTHING.match(s.lower()):
            return Normal(r"\emptyset")
        if _REALS.match(s.lower()):
            return Normal(r"\mathbb{R}")
        if _WORD.match(s):
            return Normal(s.lower())
    s = _BETWEEN.sub(",", s)
    s = re.sub(r"(?<=\d)\s+(?=\d)", "\0", s)  # "3 1/2" is a mixed number, "4 2" is not 42
    s = re.sub(r"\s+", "", s).replace("\0", " ").replace(r"\varnothing", r"\emptyset")
    return Normal(r"\emptyset" if s == r"\{\}" else s, unit, measured, letter)


def chosen_letter(answer: str) -> str:
    r"""The letter of an answer that names an option and repeats its text: `(B) 12` -> "B"; else ""."""
    letter = _CHOICE_AND_TEXT.match(_TEXT.sub(r"\1", _SPACE.sub(" ", plain_signs(answer).strip())))
    return (letter[1] or letter[2]) if letter else ""


def plain_signs(text: str) -> str:
    """Signs that have a LaTeX or ASCII form in that form: full-width letters, π, √3, ≤, ², the dashes for minus."""
    if not text.isascii():
        text = full_width_to_ascii(text).translate(_SIGN_TABLE)
    text = _ROOT.sub(lambda m: rf"\sqrt{{{m[1]}}}" if m[1] else r"\sqrt", text)
    return _NAMED_SIGN.sub(lambda m: rf"\{m[1]}" if m[1] else r"\infty", text)


def unescape(text: str) -> str:
    """LaTeX that went through JSON once too often, with single backslashes; a matrix needs its double ones."""
    return text if r"\begin" in text else re.sub(r"\\\\(?=[a-zA-Z({])", r"\\", text)


def _unwrap(s: str) -> str:
    """Without the signs of mathematics around it."""
    for opening, closing in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        if s.startswith(opening) and s.endswith(closing) and len(s) > len(opening) + len(closing):
            inner = s[len(opening) : -len(closing)]
            bare = inner.replace(r"\$", "")  # a price between dollars: $\$40$
            s = s if opening in bare or closing in bare else inner.strip()
    return s
