"""Whether two answers are the same: `is_correct(gold, answer)`, the one judge of evaluation and of RL rewards.

Most answers are decided in microseconds (`quick_verdict`, by the rules of `evals.comparison`). What remains (functions,
equations, unions, texts without a mark) goes to Math-Verify in a separate process (`evals.judge`), which is killed when
a check takes too long: `9^{9^{9^9}}` costs the limit, not the run.
A check that had to be killed counts as wrong and is counted in `judge_failures()`. Nothing is ever `eval`ed.
"""

import re
from collections import Counter
from functools import lru_cache

from evals.comparison import same_form, split
from evals.expressions import value
from evals.extraction import MARKS, braced, extract_answer, last_boxed
from evals.normal_form import normal_form, plain_signs, unescape

TIME_LIMIT = 5.0  # seconds for one hard check
MAX_BARE = 60  # characters of a text that is nothing but an answer
MAX_BLANKS = 200  # characters of the answers to several blanks
MAX_TEXT = 20_000  # characters of a text that Math-Verify is asked to search

_PRICE = re.compile(r"^-?\\?\$[^$]*$|^[^$]*\\?\$$")
_BOXED_TEXT = re.compile(r"\\text\w*\s*\{[^{}]*\}")
_PROSE = re.compile(r"(?<![a-zA-Z\\])[a-z]{3,} [a-z]")
_MEMBER = re.compile(r"^(\$*)[a-zA-Z]\s*\\in(?![a-zA-Z])\s*")  # Math-Verify takes `x \in [0,1]` for an equation
_LAST_VARIABLE = re.compile(r"(.[-+*/^].*\d)\s*([a-zA-Z])$")  # Math-Verify takes the c of `6+9c` for a unit
# An inline formula does not begin and end with a line break (so say Math-Verify's labels); a displayed one may.
_OPEN_FORMULA = re.compile(r"(?<!\$)\$ *\n[^$]*\n *\$(?!\$)|\\\( *\n(?:(?!\\[()]).)*\n *\\\)", re.DOTALL)
_RELATION = re.compile(r"[<>]|\\(?:n[lg]eq|neq?|not|sim)(?![a-zA-Z])")
_QUALIFIED = re.compile(
    r"\b(?:not|least|most|more than|less than|or more|or less|half|between|never|neither)\b", re.IGNORECASE
)
_MEASURES = re.compile(r"^-?[\d.]+[a-z]{3,}[\d.]+$")  # "5 hours 30 minutes"
_PRIME = re.compile(r"'(?![a-zA-Z])|(?<![a-zA-Z])'")


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
    return same_form(a, b, right)


def _says_otherwise(gold: str, normal: str, answer: str) -> bool:
    """Whether the gold answer is a value and the answer says something else about one: "> 5", "5'", "at least 5"."""
    if len(_PRIME.findall(gold)) != len(_PRIME.findall(normal)):
        return len(normal) <= MAX_BARE
    if len(answer) > MAX_BARE or value(gold) is None:
        return False
    one_number = len(re.findall(r"\d+", normal)) == 1
    return bool(_RELATION.search(normal) or _MEASURES.search(normal) or (one_number and _QUALIFIED.search(answer)))


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
    return next((parts for c in separators if len(parts := split(plain, c)) > 1), [text])


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
