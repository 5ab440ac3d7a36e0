r"""Mathematics in HTML becomes TeX in text, before the text is extracted.

Comes in: a parsed page. Goes out: the same tree, in which every formula that was mark-up is a text node with TeX
between `$...$` (inline) or `$$...$$` (display). Formulas that are TeX in the text already stay as they are.

What is recognised, in this order:
  MathJax   <script type="math/tex; mode=display">, and its rendered previews are removed
  KaTeX     <annotation encoding="application/x-tex">, inside MathML or beside the rendered spans
  MathML    <math alttext="...">, otherwise the presentation mark-up is read (`mathml_to_tex`)
  images    <img class="math|tex|latex|formula..." alt="TeX"> (Sphinx, Wikipedia, WordPress, Doxygen)
"""

from resiliparse.parse.html import ElementNode, HTMLTree, Node

RENDERED = ".MathJax_Preview, .MathJax_Display, .MathJax, .MathJax_SVG, .MathJax_CHTML, .katex-html"
IMAGES = (
    "img.math, img.tex, img.latex, img[class^='mwe-math'], img[class^='formula'], img[src*='latex.php'],"
    " img[src*='latex.codecogs.com']"
)
KATEX = ".katex-display, .katex"
DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"))

_LAYOUT = {
    "mfrac": r"\frac{{{0}}}{{{1}}}",
    "msup": "{0}^{{{1}}}",
    "msub": "{0}_{{{1}}}",
    "msubsup": "{0}_{{{1}}}^{{{2}}}",
    "munder": "{0}_{{{1}}}",
    "mover": "{0}^{{{1}}}",
    "munderover": "{0}_{{{1}}}^{{{2}}}",
    "mroot": r"\sqrt[{1}]{{{0}}}",
}
_IGNORED = {"annotation", "annotation-xml", "mphantom", "mspace"}


def keep_mathematics(tree: HTMLTree) -> None:
    """Turn every formula of the page into text, in place."""
    _keep_mathjax_scripts(tree)
    for element in _select(tree, KATEX + ", math"):
        if element.parent is None or _inside_replaced(element):
            continue
        tex = _tex_of(element)
        if tex:
            _replace(tree, element, tex, display=_is_display(element))
    for image in _select(tree, IMAGES):
        alt = image.getattr("alt")
        if alt and alt.strip():
            parent_class = (image.parent_element.getattr("class") if image.parent_element else None) or ""
            _replace(tree, image, alt, display="formulaDsp" in str(image.getattr("class")) or "math" in parent_class)


def mathml_to_tex(node: Node) -> str:
    r"""TeX of presentation MathML: fractions, roots, scripts, tables, fences and operators.

    >>> tree = HTMLTree.parse("<math><mfrac><mi>a</mi><msup><mi>b</mi><mn>2</mn></msup></mfrac></math>")
    >>> mathml_to_tex(tree.body.first_child)
    '\\frac{a}{b^{2}}'
    """
    children = [c for c in node.child_nodes if c.tag not in _IGNORED]
    if node.tag in _LAYOUT:
        parts = [mathml_to_tex(c) for c in children if not (c.tag or "").startswith("#")]
        if len(parts) == (3 if "{2}" in _LAYOUT[node.tag] else 2):
            return _LAYOUT[node.tag].format(*parts)
        return "".join(parts)  # malformed: keep the symbols
    if not any(c.tag for c in children if not (c.tag or "#").startswith("#")):
        return (node.text or "").strip()
    inside = [mathml_to_tex(c) for c in children if not (c.tag or "").startswith("#")]
    if node.tag == "msqrt":
        return rf"\sqrt{{{''.join(inside)}}}"
    if node.tag == "mtable":
        return r"\begin{matrix}" + r" \\ ".join(inside) + r"\end{matrix}"
    if node.tag == "mtr":
        return " & ".join(inside)
    if node.tag == "mfenced" and isinstance(node, ElementNode):
        opening, closing = node.getattr("open") or "(", node.getattr("close") or ")"
        return opening + ",".join(inside) + closing
    return " ".join(i for i in inside if i) if node.tag == "mrow" and len(inside) > 3 else "".join(inside)


def _keep_mathjax_scripts(tree: HTMLTree) -> None:
    """MathJax 2: the source sits in a script after the rendered formula, which goes."""
    scripts = _select(tree, "script[type^='math/tex']")
    if scripts:
        for rendered in _select(tree, RENDERED):
            if rendered.parent is not None and not rendered.query_selector("script"):
                rendered.parent.remove_child(rendered)
    for script in scripts:
        _replace(tree, script, script.text or "", display="mode=display" in (script.getattr("type") or ""))


def _tex_of(element: ElementNode) -> str:
    for annotation in element.query_selector_all("annotation"):
        if (annotation.getattr("encoding") or "").lower() in ("application/x-tex", "tex", "latex"):
            return str(annotation.text or "")
    math = element if element.tag == "math" else element.query_selector("math")
    if math is None:
        return ""
    return str(math.getattr("alttext") or mathml_to_tex(math))


def _is_display(element: ElementNode) -> bool:
    return element.getattr("display") == "block" or "katex-display" in (element.getattr("class") or "")


def _inside_replaced(element: Node) -> bool:
    """Whether an ancestor of `element` was cut out of the page already."""
    node: Node | None = element
    while node is not None and node.tag != "html":
        node = node.parent
    return node is None


def _select(tree: HTMLTree, selector: str) -> list[ElementNode]:
    return list(tree.document.query_selector_all(selector)) if tree.document else []


def _replace(tree: HTMLTree, element: Node, tex: str, display: bool) -> None:
    tex = _without_delimiters(tex.strip())
    mark = "$$" if display else "$"
    text = tree.create_text_node(f"{mark}{tex}{mark}" if tex else "")
    if element.parent is not None and text is not None:
        element.parent.replace_child(text, element)


def _without_delimiters(tex: str) -> str:
    for opening, closing in DELIMITERS:
        if tex.startswith(opening) and tex.endswith(closing) and len(tex) >= len(opening) + len(closing):
            return tex[len(opening) : len(tex) - len(closing)].strip()
    return tex
