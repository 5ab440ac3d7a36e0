r"""Presentation MathML becomes TeX, for formulas that carry no TeX of their own.

Comes in: a `math` element of a parsed page. Goes out: TeX that typesets the same formula, without delimiters.
Every element that MathML Core lays out is read; what is malformed or unknown gives its symbols, not an error. A formula
nested some hundreds deep ends in RecursionError.
"""

import unicodedata
from collections.abc import Iterable

from resiliparse.parse.html import Node

from corpus.mathml_signs import ALPHABETS, FUNCTIONS, GREEK, LIMITS, OVER, SIGNS, UNDER, WIDE

_IGNORED = frozenset(("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "maligngroup", "malignmark"))
_ARITY = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3}
_OPENING, _CLOSING = frozenset("([{|‖⟨⌈⌊"), frozenset(")]}|‖⟩⌉⌋")


def mathml_to_tex(node: Node) -> str:
    r"""TeX of a MathML element and all in it.

    >>> from resiliparse.parse.html import HTMLTree
    >>> tree = HTMLTree.parse("<math><mfrac><mi>α</mi><msup><mi>b</mi><mn>12</mn></msup></mfrac></math>")
    >>> mathml_to_tex(tree.body.first_child)
    '\\frac{\\alpha}{b^{12}}'
    """
    tag = node.tag or ""
    if tag in _IGNORED:
        return ""
    if tag in ("mi", "mn", "mo", "mtext", "ms") and not _elements(node):
        return _token(tag, node)
    if tag == "mspace":
        return (
            r"\quad"
            if _attribute(node, "width") in ("1em", "2em")
            else r"\\"
            if _attribute(node, "linebreak") == "newline"
            else ""
        )
    if tag.startswith("#"):
        return _symbols(node.text or "") if tag == "#text" else ""
    children = _elements(node)
    if tag in _ARITY:
        parts = [mathml_to_tex(c) for c in children]
        return _scripted(tag, node, children, parts) if len(parts) == _ARITY[tag] else _join(parts)
    if tag == "mtable":
        return _table(children)
    if tag == "mmultiscripts":
        return _multiscripts(children)
    if tag in ("semantics", "maction"):
        return mathml_to_tex(children[0]) if children else ""
    inside = _join(_row(children)) if children else _symbols((node.text or "").strip())
    if tag == "msqrt":
        return rf"\sqrt{{{inside}}}"
    if tag == "mfenced":
        return _fenced(node, children)
    return inside


def _token(tag: str, node: Node) -> str:
    text = " ".join((node.text or "").split())
    if tag in ("mtext", "ms"):
        return rf"\text{{{_plain(node.text or '')}}}" if text else r"\ " if node.text else ""
    if tag == "mn":
        return _symbols(text)
    if tag == "mi" and len(text) > 1 and text.isascii() and text.isalpha():
        if text in FUNCTIONS:
            return "\\" + text
        variant = _attribute(node, "mathvariant")
        return _styled(text, variant) if variant and variant != "normal" else rf"\mathrm{{{text}}}"
    if tag == "mo" and text in FUNCTIONS:
        return "\\" + text
    if tag == "mo" and len(text) > 1 and text.isalpha() and text.isascii():
        return rf"\operatorname{{{text}}}"
    tex = _symbols(text)
    return _styled(tex, _attribute(node, "mathvariant")) if tag == "mi" else tex


def _plain(text: str) -> str:
    return text.replace("\xa0", " ").replace("{", r"\{").replace("}", r"\}")


def _styled(tex: str, variant: str) -> str:
    for word, form in ALPHABETS.items():
        if word.lower() in variant:
            return (r"\boldsymbol{%s}" if word == "BOLD" and tex.startswith("\\") else form) % tex
    return tex


def _symbols(text: str) -> str:
    return _join(_symbol(character) for character in text)


def _symbol(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    if character in GREEK:
        return GREEK[character]
    if character.isascii():
        return character
    plain = unicodedata.normalize("NFKC", character)
    if len(plain) != 1 or plain == character:
        return character
    # Letters of the mathematical alphabets (𝑥, ℝ, 𝔤): their names say which.
    name = unicodedata.name(character, "")
    for word, form in ALPHABETS.items():
        if word in name:
            return form % _symbol(plain)
    return _symbol(plain)


def _scripted(tag: str, node: Node, children: list[Node], parts: list[str]) -> str:
    base = parts[0]
    if tag == "mfrac":
        thin = (_attribute(node, "linethickness") or "1")[0] == "0"
        return rf"{{{base} \atop {parts[1]}}}" if thin else rf"\frac{{{base}}}{{{parts[1]}}}"
    if tag == "mroot":
        return rf"\sqrt[{parts[1]}]{{{base}}}"
    if tag in ("mover", "munder"):
        mark = "".join((children[1].text or "").split())
        name = (OVER if tag == "mover" else UNDER).get(mark)
        if name:
            wide = len((children[0].text or "").strip()) > 1
            return rf"\{WIDE.get(name, name) if wide else name}{{{base}}}"
    # A base of several symbols needs braces, a command or one symbol does not.
    if children[0].tag not in ("mi", "mo", "mn", "mtext") and len(base) != 1 and not _is_command(base):
        base = f"{{{base}}}"
    low = parts[1] if tag in ("msub", "munder", "msubsup", "munderover") else ""
    high = parts[-1] if tag not in ("msub", "munder") else ""
    if tag in ("munder", "mover", "munderover") and not base.startswith(LIMITS):
        return (rf"\overset{{{high}}}" if high else "") + (
            rf"{{\underset{{{low}}}{{{base}}}}}"
            if high and low
            else rf"\underset{{{low}}}{{{base}}}"
            if low
            else f"{{{base}}}"
        )
    if high and set(high) == {"'"}:
        return base + (f"_{{{low}}}" if low else "") + high
    return base + (f"_{{{low}}}" if low else "") + (f"^{{{high}}}" if high else "")


def _is_command(tex: str) -> bool:
    return tex.startswith("\\") and tex[1:].isalpha()


def _multiscripts(children: list[Node]) -> str:
    """Pairs of sub- and superscripts after the base, and before it after `mprescripts`."""
    if not children:
        return ""
    base, tex, before = children[0], "", ""
    scripts = [("" if c.tag == "none" else mathml_to_tex(c), c.tag == "mprescripts") for c in children[1:]]
    cut = next((n for n, (_, mark) in enumerate(scripts) if mark), len(scripts))

    def pairs(texts: list[str]) -> str:
        lows, highs = texts[::2], texts[1::2]
        return (f"_{{{_join(lows)}}}" if any(lows) else "") + (f"^{{{_join(highs)}}}" if any(highs) else "")

    after = pairs([t for t, _ in scripts[:cut]])
    before = pairs([t for t, _ in scripts[cut + 1 :]])
    tex = mathml_to_tex(base) + after
    return f"{{}}{before}{tex}" if before else tex


def _row(children: list[Node]) -> list[str]:
    """The parts of a row; a table between fences keeps them the height of the table."""
    parts = [mathml_to_tex(c) for c in children]
    if len(children) > 2 and all(_is_fence(children[n]) for n in (0, -1)):
        left, right = _fence(children, 0, _OPENING), _fence(children, len(children) - 1, _CLOSING)
        if left and right:
            return [rf"\left{left}", *parts[1:-1], rf"\right{right}"]
    for n, child in enumerate(children):
        left, right = _fence(children, n - 1, _OPENING), _fence(children, n + 1, _CLOSING)
        if child.tag == "mtable" and (left or right):
            parts[n] = rf"\left{left or '.'}{parts[n]}\right{right or '.'}"
            if left:
                parts[n - 1] = ""
            if right:
                parts[n + 1] = ""
    return parts


def _is_fence(node: Node) -> bool:
    return _attribute(node, "fence") == "true" or _attribute(node, "data-mjx-texclass") in ("OPEN", "CLOSE")


def _fence(children: list[Node], at: int, fences: frozenset[str]) -> str:
    if not 0 <= at < len(children) or children[at].tag != "mo" or _attribute(children[at], "stretchy") == "false":
        return ""
    text = (children[at].text or "").strip()
    return _symbols(text) if text in fences else ""


def _table(rows: list[Node]) -> str:
    lines = []
    for row in rows:
        cells = [
            _join(_row(_elements(c))) if _elements(c) else _symbols((c.text or "").strip()) for c in _elements(row)
        ]
        lines.append(" & ".join(cells[1:] if row.tag == "mlabeledtr" else cells))
    return r"\begin{matrix}" + r" \\ ".join(lines) + r"\end{matrix}"


def _fenced(node: Node, children: list[Node]) -> str:
    opening, closing = _attribute(node, "open", "("), _attribute(node, "close", ")")
    separators = "".join(_attribute(node, "separators", ",").split())
    inside = ""
    for n, child in enumerate(children):
        mark = separators[min(n, len(separators)) - 1] if n and separators else ""
        inside = _join((inside, _symbols(mark), mathml_to_tex(child)))
    if any(c.tag in ("mtable", "mfrac") or _elements(c) for c in children):
        return rf"\left{_symbols(opening) or '.'}{_spaced(inside)}\right{_symbols(closing) or '.'}"
    return _join((_symbols(opening), inside, _symbols(closing)))


def _spaced(inside: str) -> str:
    return inside if not inside[:1].isalpha() else " " + inside


def _join(parts: Iterable[str]) -> str:
    """One string; a space goes where a command would otherwise swallow the letter after it."""
    text = ""
    for part in parts:
        if part and text and part[0].isalpha() and part[0].isascii() and _ends_in_command(text):
            text += " "
        text += part
    return text


def _ends_in_command(text: str) -> bool:
    end = text[-30:]  # no command is longer
    rest = end.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return len(rest) < len(end) and rest.endswith("\\")


def _elements(node: Node) -> list[Node]:
    """The child elements; walked one by one, because Resiliparse's lists take quadratic time."""
    found, child = [], node.first_child
    while child is not None:
        if not (child.tag or "#").startswith("#"):
            found.append(child)
        child = child.next
    return found


def _attribute(node: Node, name: str, default: str = "") -> str:
    value = node.getattr(name) if hasattr(node, "getattr") else None
    return default if value is None else str(value)
