"""The two normalisations of text, each the only one for its purpose.

`for_classifier` makes the line that fastText is trained on and scores; training and scoring must never differ.
`for_matching` makes the tokens whose n-grams decontamination and near-duplicate removal compare.
Both treat a Chinese character as a word, since neither fastText nor an n-gram knows Chinese word boundaries.
"""

import re
import unicodedata

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese characters: extension A, unified, compatibility
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_CLASSIFIER_TOKEN = re.compile(rf"[{CJK}]|\\[a-z]+|[^\W\d_{CJK}]+|\d+|[^\w\s]")
_MATCHING_TOKEN = re.compile(rf"[{CJK}]|[^\W\d_{CJK}]+|\d+")
_LETTER = re.compile(r"[^\W\d_]")


def for_classifier(text: str) -> str:
    r"""One line of lower-case tokens for fastText.

    Unicode NFKC (full-width letters and digits become plain ones), lower case, white space and line breaks become
    single spaces; words, TeX commands (`\frac`), punctuation marks and Chinese characters are tokens of their own;
    every number becomes `0`, because which number it is says nothing about the page.

    >>> for_classifier("Let $x^2 = 16$.\n\\frac{１}{2} 求和")
    'let $ x ^ 0 = 0 $ . \\frac { 0 } { 0 } 求 和'
    """
    tokens = _CLASSIFIER_TOKEN.findall(unicodedata.normalize("NFKC", text).lower())
    return " ".join("0" if t.isdigit() else t for t in tokens)


def for_matching(text: str) -> list[str]:
    r"""The tokens that decontamination and duplicate removal compare.

    Unicode NFKC, case folded; runs of letters, runs of digits and single Chinese characters are tokens; white space,
    punctuation and mark-up characters only separate. So a change of case, spacing, punctuation, full-width digits or
    TeX delimiters does not hide a match.

    >>> for_matching("How MANY, in  total?  $3\\times４$ 共多少")
    ['how', 'many', 'in', 'total', '3', 'times', '4', '共', '多', '少']
    """
    return _MATCHING_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def is_chinese(text: str) -> bool:
    """Whether at least three in ten letters are Chinese characters; TeX and code count as Latin letters."""
    letters = len(_LETTER.findall(text))
    return letters > 0 and len(_CJK_CHARACTER.findall(text)) >= 0.3 * letters
