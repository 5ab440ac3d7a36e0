"""Whether two answers are the same: `is_correct(gold, answer)`, the one judge of evaluation and of RL rewards.

Numbers, fractions, short strings, tuples and lists of numbers are decided here in microseconds (`quick_verdict`);
what remains (expressions, intervals, sets, matrices, equations) goes to Math-Verify in a separate process
(`evals.judge`), which is killed when a check takes too long: `9^{9^{9^9}}` costs the limit, not the run.
A check that had to be killed counts as wrong and is counted in `judge_failures()`. Nothing is ever `eval`ed.
"""

import re
from collections import Counter
from functools import lru_cache
from itertools import accumulate

from evals.expressions import same_value, value
from evals.extraction import MARKS, braced, extract_answer, last_boxed
from evals.normal_form import chosen_letter, normal_form, plain_signs, unescape
from evals.quantities import Number, digits_and_base, parse_number, same_number

TIME_LIMIT = 5.0  # seconds for one hard check
MAX_BARE = 60  # characters of a text that is nothing but an answer
MAX_BLANKS = 200  # characters of the answers to several blanks
MAX_TEXT = 20_000  # characters of a text that Math-Verify is asked to search

_PRICE = re.compile(r"^-?\\?\$[^$]*$|^[^$]*\\?\$$")
_BOXED_TEXT = re.compile(r"\\text\w*\s*\{[^{}]*\}")
_PROSE = re.compile(r"(?<![a-zA-Z\\])[a-z]{3,} [a-z]")
_MATRIX = re.compile(r"\\begin\{([pb]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_DECIMAL_COMMA = re.compile(r"^[-+]?0,\d+$")
_COMMA_DECIMAL = re.compile(r"^[-+]?\d+,\d+$")
_MEMBER = re.compile(r"^(\$*)[a-zA-Z]\s*\\in(?![a-zA-Z])\s*")  # Math-Verify takes `x \in [0,1]` for an equation
_LAST_VARIABLE = re.compile(r"(.[-+*/^].*\d)\s*([a-zA-Z])$")  # Math-Verify takes the c of `6+9c` for a unit
# An inline formula does not begin and end with a line break (so say Math-Verify's labels); a displayed one may.
_OPEN_FORMULA = re.compile(r"(?<!\$)\$ *\n[^$]*\n *\$(?!\$)|\\\( *\n(?:(?!\\[()]).)*\n *\\\)", re.DOTALL)
_RELATION = re.compile(r"[<>]|\\(?:n[lg]eq|neq?|not|sim)(?![a-zA-Z])")
_BETWEEN = re.compile(r"([^<>=,]+)([<>]=?)([a-zA-Z])([<>]=?)([^<>=,]+)")
_BEYOND = re.compile(r"([a-zA-Z])([<>]=?)([^<>=,]+)|([^<>=,]+)([<>]=?)([a-zA-Z])")
_QUALIFIED = re.compile(
    r"\b(?:not|least|most|more than|less than|or more|or less|half|between|never|neither)\b", re.IGNORECASE
)
_TURNED = str.maketrans("<>", "><")
_PRIME = re.compile(r"'(?![a-zA-Z])|(?<![a-zA-Z])'")
_NAMED = re.compile(r"^([a-zA-Z](?:_\{?\w\}?)?)=(?=[^=])")
_WORDS = re.compile(r"^(?:[a-z]{3,}|no)(?: [a-z]+)*$")
_LETTER = re.compile(r"^[A-E]$")


def is_correct(gold: str, answer: str | None) -> bool:
    r"""Whether `answer` gives the same result as `gold`.

    Either may be a bare answer ("42", "\frac{1}{2}") or a whole solution that marks its answer (\boxed{}, ####,
    "The answer is"). Units, currencies, thousands separators and a leading "x =" don't matter; a decimal must agree
    to six digits after the point. The order counts: Math-Verify treats gold as the reference.
    """
    if not answer or not gold:
        return False
    blanks = _blanks(gold)
    if len(blanks) > 1:
        given = _blanks(_final(answer) or answer, ";,")
        return len(given) == len(blanks) and all(is_correct(g, a) for g, a in zip(blanks, given, strict=True))
    verdict = quick_verdict(gold, answer)
    return _judged(_for_judge(gold), _for_judge(answer)) if verdict is None else verdict


def quick_verdict(gold: str, answer: str) -> bool | None:
    """The verdict where plain string and number work decides it, else None."""
    left, right = _final(gold), _final(answer)
    if left == right and left is not None and re.search(r"\w", left):
        return True
    g, h = normal_form(left or gold[-MAX_TEXT:]), normal_form(right or answer[-MAX_TEXT:])
    if g.unit and h.unit and g.unit != h.unit:
        return False
    if g.letter and not h.measured:
        return False  # the gold answer 4t is no 4
    a, b = g.text, h.text
    if _says_otherwise(a, b, answer if right is None else right):
        return False
    if a and a == b:
        return True
    if left is None or right is None:
        return None
    (a_name, a), (b_name, b) = _named_interval(a) or _split_name(a), _named_interval(b) or _split_name(b)
    if (a_name and b_name and a_name != b_name) or (a_name + b_name and "=" in a + b):
        return None  # x and y, an equation and its solution for y, a chain of equations
    if a and a == b:
        return True
    return _same_text(a, b, right)


def _same_text(a: str, b: str, answer: str) -> bool | None:
    """Normal forms that are spelled differently; `answer` as it was."""
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


def _says_otherwise(gold: str, normal: str, answer: str) -> bool:
    """Whether the gold answer is a value and the answer says something else about one: "> 5", "5'", "at least 5"."""
    if len(_PRIME.findall(gold)) != len(_PRIME.findall(normal)):
        return len(normal) <= MAX_BARE
    if len(answer) > MAX_BARE or value(gold) is None:
        return False
    one_number = len(re.findall(r"\d+", normal)) == 1
    return bool(_RELATION.search(normal) or (one_number and _QUALIFIED.search(answer)))


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
    prose = _BOXED_TEXT.sub("", bare)
    if not bare or len(bare) > MAX_BARE or "\n" in prose:
        return None
    dollars = bare.count("$")  # none, a price's, or those around maths
    plain = not dollars or _PRICE.match(bare) or (dollars == 2 and bare[0] == bare[-1] == "$")
    return bare if plain and (len(prose.split()) <= 3 or not _PROSE.search(prose)) else None


def _several_boxes(text: str) -> bool:
    """Whether the last two boxes stand so close that they may be one answer ("\\boxed{1} and \\boxed{2}")."""
    last = last_boxed(text)
    before = last_boxed(text[: last[0]]) if last else None
    return last is not None and before is not None and last[0] - before[0] - len(before[1]) < 60


def _blanks(text: str, separators: str = ";") -> list[str]:
    """The answers to several blanks: what stands between the first of the separators that is there, in order."""
    marked = extract_answer(text, MARKS) if len(text) > MAX_BLANKS or "\n" in text or "\\boxed" in text else text
    plain = plain_signs(marked or "")
    if not 0 < len(plain) <= MAX_BLANKS:
        return [text]
    return next((parts for c in separators if len(parts := _split(plain, c)) > 1), [text])


def _split(s: str, separator: str) -> list[str]:
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
        return "", _split(s[2:-2], ",")
    if len(s) > 2 and s[0] in "([" and s[-1] in ")]" and len(inner := _split(s[1:-1], ",")) > 1:
        depths = accumulate((c in "([{") - (c in ")]}") for c in s[1:-1])
        if min(depths) >= 0:  # the first bracket closes at the end
            return s[0] + s[-1], inner
    return "", _split(s, ",")


def _words_verdict(a: str, b: str) -> bool | None:
    """Two words or choices that differ are different answers, and none is a number; anything else takes a parser."""
    plain = [bool(_WORDS.match(s) or _LETTER.match(s)) for s in (a, b)]
    numbers = [parse_number(s) is not None for s in (a, b)]
    return False if any(plain) and all(p or n for p, n in zip(plain, numbers, strict=True)) else None


@lru_cache(maxsize=10_000)
def _judged(gold: str, answer: str) -> bool:
    """Math-Verify's verdict. Remembered: a group of samples repeats its answers."""
    from evals.judge import Judge

    return Judge.shared().verdict(gold, answer, TIME_LIMIT)


def _for_judge(text: str) -> str:
    """The answer as boxed LaTeX where it is plain which it is, else the end of the text for Math-Verify to search."""
    text = _OPEN_FORMULA.sub("", unescape(plain_signs(text[-MAX_TEXT:])))
    answer = _final(text)
    if answer is None:
        return text
    answer = _LAST_VARIABLE.sub(r"\1{\2}", _MEMBER.sub(r"\1", answer))
    return answer if "$" in answer or braced(f"{{{answer}}}", 0) != answer else rf"\boxed{{{answer}}}"
