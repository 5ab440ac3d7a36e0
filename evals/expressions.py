r"""Values of LaTeX expressions by a small grammar: numbers, letters, + - * / ^, roots, fractions, brackets.

In: a normalized answer such as `2\sqrt{3}x+\frac{1}{2}`. Out: its value at fixed points (each letter has a fixed
complex value there), or None for anything outside the grammar. Two expressions with different values differ; with the
same values at all points they are the same function, but for a set of measure nought (Schwartz 1980).
"""

import cmath
import hashlib
import re
from functools import lru_cache
from typing import Any

POINTS = 3
LONGEST = 200  # characters
DEEPEST = 30
DIFFERENT = 1e-6  # a relative gap in double precision
DIGITS, SAME, LARGEST = 60, 1e-45, 1e40  # what is closer is worked out again with so many digits

_WORD = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]{3,}")  # "6and8" is no product of letters
_TOKEN = re.compile(
    r"\s*(\d+\.?\d*|\.\d+|\\(?:frac|sqrt|cdot|times|div|pi|alpha|beta|gamma|theta|lambda|mu|phi|omega|infty)(?![a-zA-Z])|[a-zA-Z]"
    r"|[-+*/:^(){}\[\]])",
    re.ASCII,
)


def same_value(a: str, b: str) -> bool | None:
    """Whether two expressions have the same value everywhere; None when that cannot be told here."""
    for point in range(POINTS):
        x, y = value(a, point), value(b, point)
        if x is None or y is None:
            return None
        if _gap(x, y) > DIFFERENT:
            return False
    return None if "." in a + b else _same_to_many_digits(a, b)


@lru_cache(maxsize=2000)
def value(text: str, point: int = 0) -> complex | None:
    """The expression's value at a point, or None."""
    tokens = _tokens(text)
    if not tokens:
        return None
    try:
        found: complex = _Parser(tokens, point, complex).whole()
    except (_Outside, ArithmeticError, ValueError):
        return None
    return found if cmath.isfinite(found) else None


def _same_to_many_digits(a: str, b: str) -> bool | None:
    """Doubles cannot tell 2^{60} from 2^{60}-1. None where so many digits don't tell either."""
    from mpmath import mpc, workdps  # sympy's own arithmetic

    with workdps(DIGITS):
        for point in range(POINTS):
            try:
                x, y = (_Parser(_tokens(s), point, mpc).whole() for s in (a, b))
            except (_Outside, ArithmeticError, ValueError):
                return None
            if abs(x) > LARGEST:
                return None
            if _gap(x, y) > SAME:
                return False
    return True


def _gap(x: Any, y: Any) -> Any:
    """The relative gap; small values count as a thousandth."""
    return abs(x - y) / max(1e-3, abs(x), abs(y))


class _Outside(Exception):
    """The text is no expression of this grammar."""


def _tokens(text: str) -> list[str]:
    if len(text) > LONGEST or _WORD.search(text):
        return []
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return []
        found.append(match.group(1))
        at = match.end()
    return found


class _Parser:
    """Recursive descent over the tokens, evaluating at one point in the arithmetic of `number`."""

    def __init__(self, tokens: list[str], point: int, number: Any) -> None:
        self.tokens, self.point, self.number, self.at, self.depth = list(tokens), point, number, 0, 0

    def whole(self) -> Any:
        value = self.sum()
        if self.at < len(self.tokens):
            raise _Outside
        return value

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def sum(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Outside
        value = self.product()
        while self.peek() in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        self.depth -= 1
        return value

    def product(self) -> Any:
        sign = 1
        while self.peek() in ("+", "-"):
            sign = -sign if self.take() == "-" else sign
        value = self.power()
        while (token := self.peek()) and token not in ("+", "-", ")", "}", "]"):
            if token in ("*", r"\cdot", r"\times"):
                self.take()
                value *= self.power()
            elif token in ("/", ":", r"\div"):
                self.take()
                value /= self.power()
            elif self.is_no_product(token):
                raise _Outside
            else:
                value *= self.power()
        return sign * value

    def is_no_product(self, token: str) -> bool:
        """What stands side by side without being multiplied: `3 1/2`, `3\\frac{1}{2}`, `4 2`, `f(x)`, `I(0)`."""
        before, behind = self.tokens[self.at - 1], "".join(self.tokens[self.at : self.at + 7])
        if before[-1].isdigit():
            return token[0].isdigit() or re.match(r"\\frac(\{\d+\}\{\d+\}|\d)", behind) is not None
        return token == "(" and (
            before in "fghFGHIPu" or (before.isalpha() and re.match(r"\(\d+\)", behind) is not None)
        )

    def power(self) -> Any:
        base = self.atom()
        if self.peek() != "^":
            return base
        self.take()
        exponent = self.argument()
        if self.peek() == "^" or abs(exponent) > 1000:
            raise _Outside  # a tower
        return base**exponent

    def atom(self) -> Any:
        token = self.take()
        if token and (token[0].isdigit() or token[0] == "."):
            return self.number(token)
        if token in ("(", "{", "["):
            value = self.sum()
            if self.take() != {"(": ")", "{": "}", "[": "]"}[token]:
                raise _Outside
            return value
        if token == r"\frac":
            top = self.argument()
            return top / self.argument()
        if token == r"\sqrt":
            return self.root()
        if token == r"\pi":
            return self.pi()
        if token.isalpha() or (token.startswith("\\") and len(token) > 4):
            return self.letter(token)
        raise _Outside

    def root(self) -> Any:
        degree = self.number(2)
        if self.peek() == "[":
            self.take()
            degree = self.sum()
            if self.take() != "]":
                raise _Outside
        radicand = self.argument()
        if degree != 2 and (radicand.imag or radicand.real < 0):
            raise _Outside  # which root is meant?
        return radicand ** (1 / degree)

    def argument(self) -> Any:
        """A group in braces, or the one digit, letter or command that TeX takes."""
        token = self.peek()
        if token[:1].isdigit() and len(token) > 1:
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        if token == "-":
            self.take()
            return -self.argument()
        return self.atom()

    def letter(self, name: str) -> Any:
        """Its value; e and i are what they mean: had they been variables, equal functions agree there too."""
        if name == "e":
            return self.number(cmath.e) if self.number is complex else _constant("e")
        real, imaginary = (0.0, 1.0) if name == "i" else _place(name, self.point)
        return self.number(real, imaginary)

    def pi(self) -> Any:
        return self.number(cmath.pi) if self.number is complex else _constant("pi")


def _constant(name: str) -> Any:
    """To as many digits as mpmath works with now."""
    import mpmath

    return mpmath.mpc(getattr(mpmath, name))


@lru_cache(maxsize=1000)
def _place(name: str, point: int) -> tuple[float, float]:
    """The value of a letter at a point, near the unit circle: there neither x^{50} nor the 1 in x^{50}+1 gets lost.

    Each point has its third of the circle, so that every letter is somewhere left of zero: \\sqrt{x^2} is no x.
    """
    digest = hashlib.sha256(f"{name} {point}".encode()).digest()
    radius, angle = (int.from_bytes(digest[i : i + 4], "little") / 2**32 for i in (0, 4))
    z = cmath.rect(0.9 + 0.2 * radius, cmath.tau * (point + angle) / POINTS)
    return z.real, z.imag
