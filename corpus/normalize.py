"""The two normalisations of text, each the only one for its purpose.

`classifier_tokens` makes what fastText is trained on and what is scored; training and scoring must never differ.
`matching_text` makes the text whose tokens' n-grams decontamination and duplicate removal compare.
Both treat a Chinese character as a word, since neither fastText nor an n-gram knows Chinese word boundaries.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache, partial

from corpus.mathml_signs import GREEK, SIGNS

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese characters: extension A, unified, compatibility
BMP_END = "\uffff"
PIECES = 4  # of a long text are read by the classifier
_CJK_CHARACTER = re.compile(f"[{CJK}]")
# NUL ends a word for fastText. What is frequent comes first; the second pattern is the first one's on ASCII.
_CLASSIFIER_TOKEN = re.compile(
    rf"[A-Za-z]+[^\W\d_{CJK}]*|\\[A-Za-z]+|[0-9]+\d*|[!-\[\]-^`{{-~]|[{CJK}]|[^\W\d_{CJK}]+|\d+|[^\w\s\0]"
)
_ASCII_CLASSIFIER_TOKEN = re.compile(r"[A-Za-z]+|\\[A-Za-z]+|[0-9]+|[^\w\s\0]", re.ASCII)
_MATCHING_TOKEN = re.compile(rf"[{CJK}]|[^\W\d_{CJK}]+|\d+")
_LETTER = re.compile(r"[^\W\d_]")


def classifier_tokens(text: str, characters: int | None = None) -> list[str]:
    r"""The tokens of a text: words, numbers, TeX commands (`\frac`), punctuation marks, single Chinese characters.

    Unicode NFKC makes full-width letters and digits plain ones. What a token is called is `classifier_word`'s: apart,
    because a scorer looks it up once for all times that the token occurs. Of a text longer than `characters`, four
    pieces of together as many are taken, the first at its start, the last at its end, the others evenly between.
    """
    text = _pieces(text, characters)
    if text.isascii():
        return _ASCII_CLASSIFIER_TOKEN.findall(text)
    return _CLASSIFIER_TOKEN.findall(unicodedata.normalize("NFKC", text))


def classifier_word(token: str) -> str:
    """The word that fastText sees: in lower case; `0` for every number, since which one it is says nothing."""
    return "0" if token.isdigit() else token.lower()


def for_classifier(text: str, characters: int | None = None) -> str:
    r"""The line that fastText is trained on: the words of the text, separated by single spaces.

    >>> for_classifier("Let $x^2 = 16$.\n\\frac{１}{2} 求和")
    'let $ x ^ 0 = 0 $ . \\frac { 0 } { 0 } 求 和'
    """
    return " ".join(map(classifier_word, classifier_tokens(text, characters)))


def for_matching(text: str) -> list[str]:
    r"""The tokens that decontamination and duplicate removal compare: runs of letters, runs of digits and single
    Chinese characters of `matching_text`; white space, punctuation and mark-up characters only separate them.

    >>> for_matching("How MANY, in  total?  $3\\times４$ 共多少")
    ['how', 'many', 'in', 'total', '3', '4', '共', '多', '少']
    """
    return _MATCHING_TOKEN.findall(matching_text(text))


def matching_text(text: str) -> str:
    r"""A text without what hides a match from the eye of a program but not from a reader's.

    - Unicode NFKC, case folded: full-width letters, 𝑥, ½, ligatures; digits of any script become 0 to 9
    - what cannot be seen goes: soft hyphens, zero-width characters, combining accents
    - TeX: a command of a sign becomes the sign (`\pi` π, `\times` ×), one of layout goes (`\,`, `\left`, `\dfrac`)
    - no commas within a number: 1,000, 1{,}000

    >>> matching_text("Ja\u200bnet’s \\left(\\frac{\\pi}{2}\\right) is 1{,}500")
    'janet’s  ( { π }{2} ) is 1500'
    """
    if not text.isascii():
        text = _without_unseen()(unicodedata.normalize("NFKC", text))
    text = text.casefold()
    if "\\" in text:
        text = _COMMAND.sub(_sign, text.replace("{,}", ",").replace(r",\!", ","))
    return _GROUPING.sub("", text)


def is_chinese(text: str) -> bool:
    """Whether at least three in ten letters are Chinese characters; TeX and code count as Latin letters."""
    if text.isascii():
        return False
    letters = len(_LETTER.findall(text))
    return letters > 0 and len(_CJK_CHARACTER.findall(text)) >= 0.3 * letters


_GROUPING = re.compile(r",(?<=[0-9],)(?=[0-9]{3}(?![0-9]))")
_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[^{}\n]*\}|\\([a-z]+)")
_SIGN = {
    tex[1:].lower(): unicodedata.normalize("NFKC", sign).casefold()
    for sign, tex in (GREEK | SIGNS).items()
    if tex[:1] == "\\" and tex[1:].isalpha()
}
# Commands that set, space or draw: the Unicode form of the same formula has no letters for them.
_LAYOUT = frozenset(
    """left right middle big bigg bigl bigr biggl biggr displaystyle textstyle scriptstyle limits nolimits quad qquad
    thinspace medspace thickspace enspace space hspace vspace hfill phantom text textbf textit textrm textsf texttt
    mathrm mathbf mathit mathbb mathcal mathsf mathtt mathfrak mathscr boldsymbol bm operatorname mbox hbox rm bf it sf
    tt frac dfrac tfrac cfrac sqrt over le ge ne lt gt dots dotsc dotsb colon mid lvert rvert vert lbrace rbrace degree
    tag label nonumber hline""".split()  # noqa: SIM905
)


def _pieces(text: str, characters: int | None) -> str:
    if characters is None or len(text) <= characters:
        return text
    size = characters // PIECES
    starts = [(len(text) - size) * n // (PIECES - 1) for n in range(PIECES)]
    return "\n".join(text[start : start + size] for start in starts)


@cache
def _without_unseen() -> Callable[[str], str]:
    """Takes out of a text what is drawn on another character or not at all, and makes digits of any script 0 to 9.

    Made when first needed: going through Unicode takes a while, and a process that only scores needs none of it.
    """
    seen_as = {
        chr(n): str(unicodedata.decimal(chr(n), ""))
        for n in (*range(0x80, 0x1FC00), *range(0xE0000, 0xE0200))
        if unicodedata.category(chr(n)) in ("Nd", "Cf", "Mn", "Me")
    }
    # re goes one by one through a class with characters beyond U+FFFF: it is asked only where there is such a character
    plane_0, beyond = ("".join(c for c in seen_as if (c > BMP_END) is far) for far in (False, True))
    unseen = re.compile(f"[{plane_0}]|(?=[^\0-{BMP_END}])[{beyond}]")
    return partial(unseen.sub, lambda found: seen_as[found[0]])


def _sign(found: re.Match[str]) -> str:
    name = found[1]
    if name is None or name in _LAYOUT:
        return " "
    return f" {_SIGN.get(name, name)} "
