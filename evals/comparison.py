"""Whether two normal forms are the same answer: numbers, tuples, intervals, sets, matrices, expressions, words.

In: two texts from `evals.normal_form`, the gold answer's first. Out: True, False, or None where a parser has to decide.
"""

import re
from itertools import accumulate

from evals.expressions import same_value, value
from evals.normal_form import chosen_letter
from evals.quantities import Number, digits_and_base, parse_number, same_number

_MATRIX = re.compile(r"\\begin\{([pb]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_DECIMAL_COMMA = re.compile(r"^[-+]?0,\d+$")
_COMMA_DECIMAL = re.compile(r"^[-+]?\d+,\d+$")
_BETWEEN = re.compile(r"([^<>=,]+)([<>]=?)([a-zA-Z])([<>]=?)([^<>=,]+)")
_BEYOND = re.compile(r"([a-zA-Z])([<>]=?)([^<>=,]+)|([^<>=,]+)([<>]=?)([a-zA-Z])")
_TURNED = str.maketrans("<>", "><")
_NAMED = re.compile(r"^([a-zA-Z](?:_\{?\w\}?)?)=(?=[^=])")
_WORDS = re.compile(r"^(?:[a-z]{3,}|no)(?: [a-z]+)*$")
_LETTER = re.compile(r"^[A-E]$")


def same_form(a: str, b: str, answer: str) -> bool | None:
    """Whether normal forms that are spelled differently say the same; `answer`, of which `b` is the form, as it was."""
    (a_name, a), (b_name, b) = _named_interval(a) or _split_name(a), _named_interval(b) or _split_name(b)
    if (a_name and b_name and a_name != b_name) or (a_name + b_name and "=" in a + b):
        return None  # x and y, an equation and its solution for y, a chain of equations
    if a and a == b:
        return True
    x, y = _numbers(a), _numbers(b)
    if x is not None and y is not None:
        if len(x[1]) == len(y[1]) > 1 and (x[0] == "") != (y[0] == ""):
            return None  # "(1,2)" and "1,2"
        return x[0] == y[0] and _same_numbers(x[1], y[1], ordered=x[0] != "")
    if (based := digits_and_base(a)) or digits_and_base(b):
        # an answer without a base is in the one that the question asks for, a gold answer without one in base ten
        return (based or (a, "10")) == (digits_and_base(b) or (b, based[1] if based else ""))
    if _LETTER.match(a) and (letter := chosen_letter(answer)):
        return letter == a
    verdict = _words_verdict(a, b)
    return _same_expressions(a, b) if verdict is None else verdict


def split(s: str, separator: str) -> list[str]:
    """`s` cut at the separators outside of brackets."""
    depth, parts = 0, [""]
    for c in s:
        depth += (c in "([{") - (c in ")]}")
        if c == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _named_interval(s: str) -> tuple[str, str] | None:
    r"""`0<x<=1` -> ("x", "(0,1]"), `x>3` -> ("x", "(3,\infty)"), `x\in(0,1)` likewise; None for anything else."""
    if m := re.match(r"([a-zA-Z])\\in(?=[(\[])", s):
        return m[1], s[m.end() :]
    if m := _BETWEEN.fullmatch(s):
        low, first, name, second, high = m.groups()
        if first[0] != second[0]:
            return None
        if first[0] == ">":
            low, first, second, high = high, second, first, low
    elif m := _BEYOND.fullmatch(s):
        name, sign, bound = (m[1], m[2], m[3]) if m[1] else (m[6], m[5].translate(_TURNED), m[4])
        low, first, second, high = (bound, sign, "<", r"\infty") if sign[0] == ">" else (r"-\infty", "<", sign, bound)
    else:
        return None
    return name, f"{'[' if '=' in first else '('}{low},{high}{']' if '=' in second else ')'}"


def _split_name(s: str) -> tuple[str, str]:
    """`x=5` -> ("x", "5")."""
    if m := _NAMED.match(s):
        return m[1], s[m.end() :]
    return (s[-1], s[:-2]) if re.match(r"[^=]+=[a-zA-Z]$", s) else ("", s)


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
    """Expressions, or tuples, intervals and sets of them, by their values; None when a parser has to decide."""
    if "%" in a + b:
        return _same_share(a, b)
    (left, xs), (right, ys) = _parts(a), _parts(b)
    if len(xs) != len(ys) and any(_COMMA_DECIMAL.match(s) for s in (a, b)):
        return _same_values([a.replace(",", ".")], [b.replace(",", ".")], True) and None  # 0,5 may be a half
    if "=" in b and "=" not in a:  # "2+3=5": what stands last is the answer
        return None if same_value(a, b.rpartition("=")[2]) is not False else False
    kinds = {_kind(s) for s in (a, b)}
    if len(kinds) > 1 and "?" not in kinds and kinds != {"matrix", "values"}:
        return False  # a matrix or a union is no single value
    if kinds == {"matrix"}:
        return _same_matrices(_matrix(a), _matrix(b))
    if len(xs) != len(ys):
        return False if all(value(p) is not None for p in (*xs, *ys)) else None
    if len(xs) > 1 and left != right:
        return _same_values(xs, ys, ordered=False) and None  # other brackets: equal at best
    return _same_values(xs, ys, ordered=bool(left))


def _kind(s: str) -> str:
    """What an answer is, as far as no two kinds are ever equal; "?" for what may be anything."""
    for mark, kind in ((r"\begin{", "matrix"), (r"\cup", "union"), ("=", "equation")):
        if mark in s:
            return "?" if kind == "equation" and not re.match(r"[^=:]*[-+*/^][^=:]*=[^=]*$", s) else kind
    if _WORDS.match(s):
        return "words"
    parts = _parts(s)[1]
    return "?" if any(value(p) is None for p in parts) else "value" if len(parts) == 1 else "values"


def _matrix(s: str) -> list[list[str]]:
    """Its rows; none for what is a matrix only in part."""
    m = _MATRIX.fullmatch(s)
    return [row.split("&") for row in m[2].removesuffix("\\\\").split("\\\\")] if m else []


def _same_matrices(a: list[list[str]], b: list[list[str]]) -> bool | None:
    if not a or not b:
        return None
    if [len(row) for row in a] != [len(row) for row in b]:
        return False
    return _same_values([x for row in a for x in row], [y for row in b for y in row], ordered=True)


def _same_share(a: str, b: str) -> bool | None:
    """`5%` and an expression: different if neither 5 nor 0.05 is near it."""
    shares = [p for p in (parse_number(s) for s in (a, b)) if p and p.percent]
    other = value(b if a.endswith("%") else a)
    if len(shares) != 1 or other is None:
        return None
    near = any(abs(other - x) <= 1e-3 * abs(x) for x in (float(shares[0].value), float(shares[0].value) / 100))
    return None if near else False


def _same_values(xs: list[str], ys: list[str], ordered: bool) -> bool | None:
    """Lists of expressions of one length, in their order or in any."""
    if ordered or len(xs) == 1:
        verdicts = [same_value(x, y) for x, y in zip(xs, ys, strict=True)]
        return False if False in verdicts else None if None in verdicts else True
    left = list(ys)
    for x in xs:
        verdicts = [same_value(x, y) for y in left]
        if True not in verdicts:
            return None if None in verdicts else False
        del left[verdicts.index(True)]
    return True


def _parts(s: str) -> tuple[str, list[str]]:
    """`(1,x+2)` -> ("()", ["1", "x+2"]): the brackets around a list, its entries split at the commas."""
    if parse_number(s):
        return "", [s.replace(",", "")]
    if s.startswith(r"\{") and s.endswith(r"\}"):
        return "", split(s[2:-2], ",")
    if len(s) > 2 and s[0] in "([" and s[-1] in ")]" and len(inner := split(s[1:-1], ",")) > 1:
        depths = accumulate((c in "([{") - (c in ")]}") for c in s[1:-1])
        if min(depths) >= 0:  # the first bracket closes at the end
            return s[0] + s[-1], inner
    return "", split(s, ",")


def _words_verdict(a: str, b: str) -> bool | None:
    """Two words or choices that differ are different answers, and none is a number; anything else takes a parser."""
    plain = [bool(_WORDS.match(s) or _LETTER.match(s)) for s in (a, b)]
    numbers = [parse_number(s) is not None for s in (a, b)]
    return False if any(plain) and all(p or n for p, n in zip(plain, numbers, strict=True)) else None
