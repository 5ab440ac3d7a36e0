"""The final answer inside a piece of text: what a solution, a model's output or a benchmark's gold field claims.

In: text, and the ways to look, by name (`Method`). Out: the answer as written (LaTeX kept), or None.
Of all the marks a text carries the last one counts: a model that corrects itself is judged by its last word.
"""

import re
import string
import unicodedata
from collections.abc import Sequence
from typing import Literal

Found = tuple[int, str]  # where the mark begins, the answer behind it

MARKS: tuple["Method", ...] = ("boxed", "hash", "phrase")
Method = Literal["boxed", "hash", "phrase", "output", "number", "choice", "index", "plain"]

_BOXED = re.compile(r"(?<!\\)\\+(?:boxed|fbox)\s*(?=\{)")  # the look behind: else a million backslashes take hours
_BOXED_BARE = re.compile(r"(?<!\\)\\+boxed\s+([^\s$.,;{}]+)")
_HASH = re.compile(r"####\s*([^\n]*)")
_ENGLISH = re.compile(
    r"(?:final\s+answer|answer)\s*(?:is|are|:|=)+\s*(?:therefore|thus|then|equal to|:|\*\*)*\s*", re.I
)
_CHINESE = re.compile(r"(?:最终答案|答案|结果|得数|答)\s*(?:是|为|等于|[:：]|，|,)+\s*")
_NUMBER = re.compile(r"(?<![\w.])[-−]?[$€£¥￥]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+(?:\.\d+)?)?%?", re.ASCII)
# What may follow "the answer is" and be an answer rather than a remark ("the answer is correct").
_STARTS_LIKE_AN_ANSWER = re.compile(r"[\d$\\(\[{+\-−.€£¥￥]|[A-Za-z](?![A-Za-z])|[^\x00-\x7f]")
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-H](?![A-Za-z'])")
# One or more letters, with brackets and separators; behind them nothing, a mark, or what is no word: "(A) 12".
_LETTERS = re.compile(r"^\W*([A-H](?:(?:[\s,，、;和及()]|and)*[A-H](?![a-z]))*)(?:\s*$|\s*[).:：、．]|\s+[^A-Za-z\s])")
_TEXT_BOX = re.compile(r"\\(?:text|mathrm|textbf|mathbf|boxed)\s*\{([^{}]*)\}")
# Of a tool-integrated solution: marks inside programs and outputs don't count, a comment may begin with ####.
PROGRAMS = re.compile(r"^```(?:python|output).*?(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_OUTPUT = re.compile(r"^```output\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE)
_LOOK_AT = 50  # marks of one kind, from the end; a text with more has gone astray
_LONGEST_ANSWER = 1000  # characters behind "the answer is"; nothing longer is an answer
_LONGEST_BOX = 10_000  # characters
LONGEST_TEXT = 200_000  # characters, from the end
_TOOL = re.compile(r"<<[^<>]*>>")  # GSM8K's calculator notes


def extract_answer(text: str, methods: Sequence[Method] = MARKS) -> str | None:
    r"""The last marked answer of `text`, or None.

    Marks: `boxed` (\boxed{...} with balanced braces), `hash` (GSM8K's `#### 42`), `phrase` ("The answer is 42.",
    "答案是42。"). A mark inside another one's answer ("The answer is \boxed{42}") yields the inner answer.
    Only when no mark of `methods` is there, the first of these that is named and finds something: `output`, what the
    last program of the text printed last; `number`, the last number of the text; `choice`, its last capital letter that
    stands alone; `index`, a whole number that counts the options from 0, as a letter; `plain`, the whole text.
    """
    text = text[-LONGEST_TEXT:]
    prose = PROGRAMS.sub("", text) if "```" in text else text
    found = [hit for name in methods if name in MARKS and (hit := _LAST[name](prose)) is not None]
    if found:
        answer = max(found, key=lambda hit: hit[0])[1]
        inner = last_boxed(answer)
        return tidy(inner[1] if inner else answer) or None
    if "output" in methods and (printed := _OUTPUT.findall(text)):
        return tidy(printed[-1].rstrip().rpartition("\n")[2]) or None
    if "number" in methods and (numbers := _NUMBER.findall(full_width_to_ascii(_TOOL.sub("", prose)))):
        return str(numbers[-1])
    if "choice" in methods and (letters := _LETTER.findall(full_width_to_ascii(prose))):
        return str(letters[-1])
    if "index" in methods and text.strip().isdecimal() and int(text) < 26:
        return string.ascii_uppercase[int(text)]
    return tidy(text) if "plain" in methods and any(c.isalnum() for c in text) else None


def last_boxed(text: str) -> Found | None:
    r"""The content of the last \boxed{...}; an unclosed one holds nothing, so the one before it counts."""
    bare = list(_BOXED_BARE.finditer(text))
    best = (bare[-1].start(), bare[-1].group(1)) if bare else None
    for match in reversed(list(_BOXED.finditer(text))[-_LOOK_AT:]):
        content = braced(text, match.end())
        if content is not None:
            return best if best and best[0] > match.start() else (match.start(), content)
    return best


def braced(text: str, start: int) -> str | None:
    """What stands between the brace at `start` and its partner; None when that is not near. `\\{` is no brace."""
    depth = 0
    i = start
    while i < min(len(text), start + _LONGEST_BOX):
        if text[i] == "\\":
            i += 1
        elif text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : i]
        i += 1
    return None


def last_hash(text: str) -> Found | None:
    """The rest of the line after the last `####`."""
    hits = [m for m in _HASH.finditer(text) if m.group(1).strip()]
    return (hits[-1].start(), hits[-1].group(1)) if hits else None


def last_phrase(text: str) -> Found | None:
    """The answer behind the last "the answer is" or its Chinese counterpart."""
    hits = [*_ENGLISH.finditer(text), *_CHINESE.finditer(text)]
    for match in sorted(hits, key=lambda m: m.start(), reverse=True)[:_LOOK_AT]:
        rest = text[match.end() : match.end() + _LONGEST_ANSWER].lstrip("*_ ")
        if _STARTS_LIKE_AN_ANSWER.match(rest):
            return match.start(), _sentence(rest)
    return None


def _sentence(text: str) -> str:
    """`text` up to the end of its first sentence: a full stop not inside a number, maths or braces, or a line's end."""
    depth, in_math = 0, False
    for i, c in enumerate(text):
        if c == "\n" and depth <= 0:
            return text[:i]
        if c == "$" and (in_math or "$" in text[i + 1 :].split("\n")[0]):
            in_math = not in_math
        depth += (c in "{([") - (c in "})]")
        last = i + 1 == len(text) or text[i + 1].isspace() or not text[i + 1].isascii()
        if not in_math and depth <= 0 and (c in "。；！" or (c in ".;!" and last)):
            return text[:i]
    return text


def choice_letters(answer: str) -> str:
    r"""The letters that a multiple-choice answer names, in order: "(B)" -> "B", "A and C" -> "AC", "\\text{D}" -> "D".

    Empty when it names none: an answer that gives the option's text instead of its letter is not guessed at.
    """
    plain = _TEXT_BOX.sub(r"\1", full_width_to_ascii(answer)).strip("$ ")
    found = _LETTERS.match(plain)
    return "".join(sorted(set(re.findall("[A-H]", found.group(1))))) if found else ""


def full_width_to_ascii(text: str) -> str:
    """Full-width digits, letters and signs as ASCII ("４２％" -> "42%"); the rest as it was."""
    if text.isascii():
        return text
    folded = (unicodedata.normalize("NFKC", c) if "\uff01" <= c <= "\uff5e" else c for c in text)
    return "".join(folded).replace("−", "-").replace("\u3000", " ")


def tidy(answer: str) -> str:
    """`answer` without the spaces, Markdown stars and full stop around it."""
    answer = answer.strip().strip("*").strip()
    return answer.rstrip("。").removesuffix(".").rstrip() if not answer.endswith("...") else answer


_LAST = {"boxed": last_boxed, "hash": last_hash, "phrase": last_phrase}
