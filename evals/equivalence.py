"""Whether two answers are the same: `is_correct(gold, answer)`, the one judge of evaluation and of RL rewards.

Numbers, fractions, short strings, tuples and lists of numbers are decided here in microseconds (`quick_verdict`);
what remains (expressions, intervals, sets, matrices, equations) goes to Math-Verify in a separate process
(`evals.judge`), which is killed when a check takes too long: `9^{9^{9^9}}` costs the limit, not the run.
A check that had to be killed counts as wrong and is counted in `judge_failures()`. Nothing is ever `eval`ed.
"""

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from evals.expressions import same_value, values
from evals.extraction import MARKS, braced, extract_answer, full_width_to_ascii, last_boxed

TIME_LIMIT = 5.0  # seconds for one hard check
TOLERANCE = Fraction(5, 10**7)  # a decimal may differ by half a unit of the sixth digit after the point
RELATIVE_TOLERANCE = Fraction(1, 10**4)  # ... which must not swallow a small number whole
MAX_DIGITS = 400
MAX_BARE = 60  # characters of a text that is nothing but an answer
MAX_TEXT = 20_000  # characters of a text that Math-Verify is asked to search

_WRAPPERS = re.compile(
    r"\\(?:dfrac|tfrac|cfrac)|\\(?:left|right|[bB]ig+[lr]?)(?![a-zA-Z])|\\[!,;: ]|\\q?quad|\\displaystyle"
)
_TEXT = re.compile(r"\\(?:text|textbf|textnormal|textrm|textit|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
_UNIT_TEXT = re.compile(
    r"(?<=[\d}%)])\s*\\(?:text|textbf|textnormal|textrm|mbox|mathrm)\s*\{[^{}]*\}(?:\^\{?[23]\}?)?$"
)
_UNITS = (
    "dollars? cents? euros? pounds? yuan percent pct degrees? feet foot ft inch(?:es)? in miles? mph meters? metres? "
    "m cm mm km centimeters? kilometers? square cubic units? hours? hrs? h minutes? mins? min seconds? secs? s days? "
    "weeks? months? years? kg g grams? kilograms? ml l liters? people students"
).replace(" ", "|")
_UNIT_WORD = re.compile(rf"(?<=[\d}}%)])\s*(?:(?:{_UNITS})\b[\s.]*)+(?:\^?\{{?[23²³]\}}?)?$", re.IGNORECASE)
_UNIT_CHINESE = re.compile(r"(?<=[\d}%])\s*[\u4e00-\u9fff]{1,4}[²³]?$")
_DEGREES = re.compile(r"\^\{?\\circ\}?|°|\\degree")
_CURRENCY = re.compile(r"^([-+]?)\s*(?:\\\$|[$€£¥￥])\s*(?=[\d.])(?!.*\$)")
_PRICE = re.compile(r"^-?\\?\$[^$]*$")
_THOUSANDS = re.compile(r"^[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$", re.ASCII)
_DECIMAL = re.compile(
    r"^([-+]?)(\d+\.?\d*|\.\d+)(?:(?:\\times|\\cdot|\*|×)10\^\{?([-+]?\d{1,3})\}?|[eE]([-+]?\d{1,3}))?$", re.ASCII
)
_FRACTION = re.compile(
    r"^([-+]?)(?:\\frac\{(-?[\d.]+)\}\{(-?[\d.]+)\}|\\frac(\d)(\d)|\(?(-?[\d.]+)\)?/\(?(-?[\d.]+)\)?)$", re.ASCII
)
_MIXED = re.compile(r"^([-+]?)(\d+)(?:\\frac\{(\d+)\}\{(\d+)\}|\\frac(\d)(\d)| +(\d+)/(\d+))$", re.ASCII)
_DECIMAL_COMMA = re.compile(r"^[-+]?0,\d+$")
_COMMA_DECIMAL = re.compile(r"^[-+]?\d+,\d+$")
_MEMBER = re.compile(r"^(\$*)[a-zA-Z]\s*\\in(?![a-zA-Z])\s*")  # Math-Verify takes `x \in [0,1]` for an equation
_LAST_VARIABLE = re.compile(r"(.[-+*/^].*\d)\s*([a-zA-Z])$")  # Math-Verify takes the c of `6+9c` for a unit
# An inline formula does not begin and end with a line break (so say Math-Verify's labels); a displayed one may.
_OPEN_FORMULA = re.compile(r"(?<!\$)\$ *\n[^$]*\n *\$(?!\$)|\\\( *\n(?:(?!\\\)).)*\n *\\\)", re.DOTALL)
_NAMED = re.compile(r"^([a-zA-Z](?:_\{?\w\}?)?)=(?=[^=])")
_CHOICE = re.compile(r"^\(?([A-Ea-e])[).:]?$")
_WORD = re.compile(r"^[a-zA-Z]{3,}(?: [a-zA-Z]+)*$")


class Number(NamedTuple):
    """An exact value, whether it was written as a decimal, and whether a per cent sign followed."""

    value: Fraction
    decimal: bool
    percent: bool


def is_correct(gold: str, answer: str | None) -> bool:
    r"""Whether `answer` gives the same result as `gold`.

    Either may be a bare answer ("42", "\frac{1}{2}") or a whole solution that marks its answer (\boxed{}, ####,
    "The answer is"). Units, currencies, thousands separators and a leading "x =" don't matter; a decimal must agree
    to six digits after the point. The order counts: Math-Verify treats gold as the reference.
    """
    if not answer or not gold:
        return False
    verdict = quick_verdict(gold, answer)
    return _judged(gold, answer) if verdict is None else verdict


def quick_verdict(gold: str, answer: str) -> bool | None:
    """The verdict where plain string and number work decides it, else None."""
    left, right = _final(gold), _final(answer)
    a, b = normalize(left or gold[-MAX_TEXT:]), normalize(right or answer[-MAX_TEXT:])
    if a and a == b:
        return True
    if left is None or right is None:
        return None
    (a_name, a), (b_name, b) = _split_name(a), _split_name(b)
    if a_name and b_name and a_name != b_name:
        return None
    if a and a == b:
        return True
    x, y = _numbers(a), _numbers(b)
    if x is not None and y is not None:
        if len(x[1]) == len(y[1]) > 1 and (x[0] == "") != (y[0] == ""):
            return None  # "(1,2)" and "1,2"
        return x[0] == y[0] and _same_numbers(x[1], y[1], ordered=x[0] != "")
    verdict = _words_verdict(a, b)
    return _same_expressions(a, b) if verdict is None else verdict


def normalize(answer: str) -> str:
    """`answer` without what changes no meaning: dollar signs, sizing, spaces, units, text boxes, case of words."""
    s = full_width_to_ascii(answer).strip()
    s = _unescape(s)
    for opening, closing in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        if s.startswith(opening) and s.endswith(closing) and len(s) > len(opening) + len(closing):
            inner = s[len(opening) : -len(closing)]
            bare = inner.replace(r"\$", "")  # a price between dollars
            s = s if opening in bare or closing in bare else inner.strip()
    s = _WRAPPERS.sub(lambda m: r"\frac" if "frac" in m.group() else "", s).replace("{,}", ",").replace("~", " ")
    s = _DEGREES.sub("", s.strip().rstrip(".").strip())
    s = _UNIT_CHINESE.sub("", _UNIT_WORD.sub(_without_unit, _UNIT_TEXT.sub("", s)))
    s = _CURRENCY.sub(r"\1", _TEXT.sub(lambda m: m.group(1).strip(), s).strip())
    if choice := _CHOICE.match(s):
        return choice.group(1).upper()
    if _WORD.match(s):
        return s.lower()
    s = re.sub(r"(?<=\d) +(?=\d)", "\0", s)  # "3 1/2" is a mixed number, "4 2" is not 42
    return re.sub(r"\s+", "", s).replace("\0", " ")


def _without_unit(unit: re.Match[str]) -> str:
    """Nothing; but a letter behind a sum, or close behind what is no number, is a variable: `6+9h`, `3\\sqrt{2}h`."""
    before, word = unit.string[: unit.start()], unit.group().strip()
    if len(word) > 1 or parse_number(before.replace(" ", "")) is not None:
        return ""
    return unit.group() if re.search(r"[+-]", before[1:]) or unit.group() == word else ""


def parse_number(s: str) -> Number | None:
    """A normalized string as a number; None when it is none."""
    if len(s) > MAX_DIGITS:
        return None
    percent = s.endswith("%")
    s = s.removesuffix("%").removesuffix("\\")
    if _THOUSANDS.match(s):
        s = s.replace(",", "")
    value: Fraction | None = None
    if m := _DECIMAL.match(s):
        value = Fraction(m.group(1) + m.group(2)) * Fraction(10) ** int(m.group(3) or m.group(4) or 0)
    elif m := _MIXED.match(s):
        top, bottom = [g for g in m.groups()[2:] if g is not None]
        value = (
            None
            if int(bottom) == 0
            else (int(m.group(2)) + Fraction(int(top), int(bottom))) * (-1 if m.group(1) == "-" else 1)
        )
    elif m := _FRACTION.match(s):
        value = _quotient(m.group(1), *[g for g in m.groups()[1:] if g is not None])
    return None if value is None else Number(value, "." in s, percent)


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


def judge_failures() -> Counter[str]:
    """Hard checks of this process that gave no verdict, by reason."""
    from evals.judge import Judge

    return Judge.shared().failures


def _final(text: str) -> str | None:
    """The answer of a text that marks one or is nothing but one; None when finding it takes a parser."""
    if _several_boxes(text):
        return None
    marked = extract_answer(text, MARKS)
    if marked is not None:
        return marked
    bare = text.strip()
    if not bare or len(bare) > MAX_BARE or "\n" in bare:
        return None
    dollars = bare.count("$")  # none, a price's, or those around maths
    plain = not dollars or _PRICE.match(bare) or (dollars == 2 and bare[0] == bare[-1] == "$")
    return bare if plain and (len(bare.split()) <= 3 or not re.search(r"[a-z]{3,} [a-z]", bare)) else None


def _several_boxes(text: str) -> bool:
    """Whether the last two boxes stand so close that they may be one answer ("\\boxed{1} and \\boxed{2}")."""
    last = last_boxed(text)
    before = last_boxed(text[: last[0]]) if last else None
    return last is not None and before is not None and last[0] - before[0] - len(before[1]) < 60


def _split_name(s: str) -> tuple[str, str]:
    """`x=5` -> ("x", "5")."""
    m = _NAMED.match(s)
    return (m.group(1), s[m.end() :]) if m else ("", s)


def _numbers(s: str) -> tuple[str, list[Number]] | None:
    """A number, or several with commas between them, as (brackets around them, the numbers); None for anything else."""
    if (single := parse_number(s)) is not None:
        return "", [single]
    brackets = ""
    if len(s) > 2 and s[0] in "([" and s[-1] in ")]":
        brackets, s = s[0] + s[-1], s[1:-1]
    if not brackets and _DECIMAL_COMMA.match(s):
        return None
    parts = [parse_number(p) for p in s.split(",")]
    values = [p for p in parts if p is not None]
    return (brackets, values) if len(values) == len(parts) and len(parts) > 1 else None


def _same_numbers(a: list[Number], b: list[Number], ordered: bool) -> bool:
    if len(a) != len(b):
        return False
    if len(a) == 1:
        return same_number(a[0], b[0])
    if not ordered:
        a, b = sorted(a), sorted(b)
    return all(same_number(x, y) for x, y in zip(a, b, strict=True))


def _same_expressions(a: str, b: str) -> bool | None:
    """Expressions, or tuples and intervals of them, by their values; None when a parser has to decide."""
    (left, xs), (right, ys) = _parts(a), _parts(b)
    if "%" in a + b or (len(xs) > 1 and len(ys) > 1 and left != right):
        return None
    shaped = [r"\begin{" in s or r"\cup" in s for s in (a, b)]
    if shaped[0] != shaped[1] and values(b if shaped[0] else a) is not None:
        return False  # a matrix or a union is no single value
    if len(xs) != len(ys):
        if any(_COMMA_DECIMAL.match(s) for s in (a, b)):
            return None  # 0,5 may be a half or two numbers
        return False if all(values(p) is not None for p in (*xs, *ys)) else None
    if len(xs) > 1 and not left:
        return None  # in any order
    verdicts = [same_value(x, y) for x, y in zip(xs, ys, strict=True)]
    return False if False in verdicts else None if None in verdicts else True


def _parts(s: str) -> tuple[str, list[str]]:
    """`(1,x+2)` -> ("()", ["1", "x+2"]): the brackets around a list, its entries split at the commas."""
    if len(s) > 2 and s[0] in "([" and s[-1] in ")]" and "," in s:
        return s[0] + s[-1], s[1:-1].split(",")
    return "", s.split(",")


def _words_verdict(a: str, b: str) -> bool | None:
    """Two words or choices that differ are different answers, and none is a number; anything else takes a parser."""
    plain = [bool(_WORD.match(s) or _CHOICE.match(s)) for s in (a, b)]
    numbers = [parse_number(s) is not None for s in (a, b)]
    return False if any(plain) and all(p or n for p, n in zip(plain, numbers, strict=True)) else None


def _quotient(sign: str, top: str, bottom: str) -> Fraction | None:
    if top.count(".") > 1 or bottom.count(".") > 1 or not re.search(r"\d", top) or not re.search(r"[1-9]", bottom):
        return None
    return Fraction(top) / Fraction(bottom) * (-1 if sign == "-" else 1)


@lru_cache(maxsize=10_000)
def _judged(gold: str, answer: str) -> bool:
    """Math-Verify's verdict. Remembered: a group of samples repeats its answers."""
    from evals.judge import Judge

    return Judge.shared().verdict(_for_judge(gold), _for_judge(answer), TIME_LIMIT)


def _for_judge(text: str) -> str:
    """The answer as boxed LaTeX where it is plain which it is, else the end of the text for Math-Verify to search."""
    text = _OPEN_FORMULA.sub("", _unescape(full_width_to_ascii(text[-MAX_TEXT:])))
    answer = _final(text)
    if answer is None:
        return text
    answer = _LAST_VARIABLE.sub(r"\1{\2}", _MEMBER.sub(r"\1", answer))
    return answer if "$" in answer or braced(f"{{{answer}}}", 0) != answer else rf"\boxed{{{answer}}}"


def _unescape(text: str) -> str:
    """LaTeX that went through JSON once too often, with single backslashes; a matrix needs its double ones."""
    return text if r"\begin" in text else re.sub(r"\\\\(?=[a-zA-Z({])", r"\\", text)
