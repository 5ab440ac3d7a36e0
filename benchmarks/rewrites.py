r"""Answers rewritten in ways that keep or break equality, by rules that say which: labelled pairs from any golds.

Each rule takes a gold answer (LaTeX, as MATH boxes it) and gives the rewritten answer, or None where it has nothing to
rewrite. KEEP rules give the same value written otherwise; BREAK rules another value written alike.
"""

import re
from collections.abc import Callable

Rule = Callable[[str], str | None]

INTEGER = re.compile(r"-?\d+", re.ASCII)
FRACTION = re.compile(r"(-?)\\d?frac\{(\d+)\}\{(\d+)\}", re.ASCII)
PAIR = re.compile(r"\(([^(),]+),\s*([^(),]+)\)")
INTERVAL = re.compile(r"([\[(])([^\[\](),]+),([^\[\](),]+)([\])])")
SURD = re.compile(r"(-?\d*)\\sqrt\{(\d+)\}", re.ASCII)
SUM = re.compile(r"([a-z0-9^ ]+|\d*\\sqrt\{\d+\})\+([a-z0-9^ ]+|\d*\\sqrt\{\d+\})")


def integer(change: Callable[[int], str | None]) -> Rule:
    """`change` of an answer that is a whole number."""
    return lambda gold: change(int(gold)) if INTEGER.fullmatch(gold) else None


def fraction(change: Callable[[str, int, int], str | None]) -> Rule:
    """`change` of an answer that is a fraction: sign, numerator, denominator."""

    def rule(gold: str) -> str | None:
        m = FRACTION.fullmatch(gold)
        return change(m[1], int(m[2]), int(m[3])) if m else None

    return rule


def matching(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str | None]) -> Rule:
    """`change` of an answer that `pattern` fits whole."""

    def rule(gold: str) -> str | None:
        m = pattern.fullmatch(gold)
        return change(m) if m else None

    return rule


def replaced(old: str, new: str) -> Rule:
    """The answer with `old` as `new`, where it has it."""
    return lambda gold: gold.replace(old, new) if old in gold else None


def decimal_of(sign: str, top: int, bottom: int) -> str | None:
    """A fraction as a decimal that ends within six digits; None when it does not."""
    scaled, rest = divmod(top * 10**6, bottom)
    if rest or top % bottom == 0:
        return None
    return sign + f"{scaled // 10**6}.{scaled % 10**6:06d}".rstrip("0")


KEEP: dict[str, Rule] = {
    "dollars around it": lambda g: f"${g}$",
    "boxed": lambda g: rf"\boxed{{{g}}}",
    "a sentence": lambda g: f"The answer is ${g}$.",
    "a Chinese sentence": lambda g: f"所以答案是${g}$。",
    "a full stop": lambda g: None if g.endswith(".") else f"{g}.",
    r"\dfrac": replaced(r"\frac{", r"\dfrac{"),
    r"\left( \right)": lambda g: re.sub(r"\)$", r"\\right)", r"\left" + g) if PAIR.fullmatch(g) else None,
    "spaces after commas": lambda g: g.replace(",", r",\ ") if PAIR.fullmatch(g) else None,
    "x =": integer(lambda n: f"x = {n}"),
    "a decimal point and a nought": integer(lambda n: f"{n}.0"),
    "thousands separators": integer(lambda n: f"{n:,}" if abs(n) > 999 else None),
    "full-width digits": integer(lambda n: "".join(chr(ord(c) + 0xFEE0) for c in str(n))),
    "plus and minus another": integer(lambda n: f"{n - 7}+7"),
    "unreduced": fraction(lambda s, a, b: rf"{s}\frac{{{3 * a}}}{{{3 * b}}}"),
    "with a slash": fraction(lambda s, a, b: f"{s}{a}/{b}"),
    "as a decimal": fraction(decimal_of),
    "as a mixed number": fraction(lambda s, a, b: rf"{s}{a // b}\frac{{{a % b}}}{{{b}}}" if a > b and a % b else None),
    "minus in the numerator": fraction(lambda s, a, b: rf"\frac{{-{a}}}{{{b}}}" if s else None),
    r"a \cdot": matching(SURD, lambda m: rf"{m[1]} \cdot \sqrt{{{m[2]}}}" if m[1].lstrip("-") else None),
    "root as a power": matching(SURD, lambda m: rf"{m[1]}{m[2]}^{{1/2}}" if m[1] in ("", "-") else None),
    "a unit": integer(lambda n: rf"{n}\text{{ cm}}"),
    "terms the other way round": matching(SUM, lambda m: f"{m[2]}+{m[1]}"),
}

BREAK: dict[str, Rule] = {
    "one more": integer(lambda n: str(n + 1)),
    "the other sign": integer(lambda n: str(-n) if n else None),
    "a digit lost": integer(lambda n: str(n)[:-1] if abs(n) > 99 else None),
    "a digit doubled": integer(lambda n: f"{n}{abs(n) % 10}" if n else None),
    "a half added": integer(lambda n: f"{n}.5" if n >= 0 else None),
    "ten times": integer(lambda n: str(10 * n) if n else None),
    "plus one behind": integer(lambda n: f"{n}+1"),
    "ten thousand times, in Chinese": integer(lambda n: f"{n}万" if n else None),
    "a million times, in words": integer(lambda n: rf"{n}\text{{ million}}" if n else None),
    "imaginary": integer(lambda n: rf"{n}\mathrm{{i}}" if n else None),
    "a dash for the minus": integer(lambda n: f"–{n}" if n > 0 else None),
    "an inequality": integer(lambda n: rf"\ge {n}"),
    "in base twelve": integer(lambda n: rf"{n}_{{12}}" if abs(n) > 11 else None),
    "times two": lambda g: rf"2\left({g}\right)" if re.fullmatch(r"[1-9]\d*|\d*\\sqrt\{\d+\}", g) else None,
    "upside down": fraction(lambda s, a, b: rf"{s}\frac{{{b}}}{{{a}}}" if a not in (0, b) else None),
    "fraction's sign": fraction(lambda s, a, b: ("" if s else "-") + rf"\frac{{{a}}}{{{b}}}" if a else None),
    "denominator one more": fraction(lambda s, a, b: rf"{s}\frac{{{a}}}{{{b + 1}}}" if a else None),
    "two digits of a fraction": fraction(
        lambda s, a, b: f"{s}{a / b:.2f}" if abs(round(a / b, 2) - a / b) > 1e-4 else None
    ),
    "pair swapped": matching(PAIR, lambda m: f"({m[2]},{m[1]})" if m[1].strip() != m[2].strip() else None),
    "half a pair": matching(PAIR, lambda m: m[1]),
    "a bracket changed": matching(
        INTERVAL, lambda m: f"{'(' if m[1] == '[' else '['}{m[2]},{m[3]}{m[4]}" if "infty" not in m[2] else None
    ),
    "root of one more": matching(SURD, lambda m: rf"{m[1]}\sqrt{{{int(m[2]) + 1}}}"),
    "root lost": matching(SURD, lambda m: f"{m[1]}{m[2]}" if m[2] != "1" else None),
    "a sum's sign": matching(SUM, lambda m: f"{m[1]}-{m[2]}"),
    "another letter": lambda g: {"A": "B", "B": "C", "C": "D", "D": "E", "E": "A"}.get(g.strip("()")),
    "another word": lambda g: rf"\text{{not {m[1]}}}" if (m := re.fullmatch(r"\\text\{([a-zA-Z ]+)\}", g)) else None,
}
