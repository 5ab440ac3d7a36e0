r"""Mathematics in HTML becomes TeX in text, before the text is extracted.

Comes in: a parsed page. Goes out: the same tree, in which every formula that was mark-up is a text node with TeX
between `$...$` (inline) or `$$...$$` (display), once, however many copies of it the page holds (MathML for screen
readers, rendered spans, an image for old browsers). Formulas that are TeX in the text already stay as they are.

What is recognised, in this order; the first that fits a formula gives its TeX:
  MathJax 2   <script type="math/tex; mode=display">; without the script <span data-mathml="...">
  MathJax 3   <mjx-container> with its assistive MathML
  Wikipedia   <span class="mwe-math-element"> around MathML and an image
  KaTeX       <annotation encoding="application/x-tex"> in MathML beside rendered spans
  MathML      an annotation, <math alttext="...">, otherwise the presentation mark-up (`corpus.mathml`)
  attributes  data-tex, data-latex, data-formula, data-katex; data-value of Quill
  images      TeX in `alt`: Sphinx, Doxygen, WordPress, Zhihu; without `alt` in the address of an image server
  scripts     x<sup>2</sup> becomes x^2, x<sub>10</sub> x_{10}; ordinals, trade marks and notes stay
"""

import re
from urllib.parse import unquote, urlsplit

from resiliparse.parse.html import ElementNode, HTMLTree, Node

from corpus.mathml import mathml_to_tex

RENDERED = ".MathJax_Preview, .MathJax_Display, .MathJax, .MathJax_SVG, .MathJax_CHTML, .mjx-chtml"
# Each holds every copy of one formula; a group inside a group goes with the outer one.
GROUPS = "mjx-container, .mwe-math-element, .katex-display, .katex, math"
ATTRIBUTES = ("data-tex", "data-latex", "data-formula", "data-katex", "data-value")
WITH_ATTRIBUTE = "[data-tex], [data-latex], [data-formula], [data-katex], .ql-formula[data-value]"
DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"))
# Images that may be formulas, found without a look at each …
IMAGES = ", ".join(
    [f"img[class*={name}]" for name in ("math", "tex", "formula", "equation", "ee_img", "ql-img")]
    + [f"img[src*='{part}']" for part in ("latex", "equation?tex=", "cht=tx", "mathtex", "mimetex")]
    + [f"img[alt*='{mark}']" for mark in ("$", r"\(", r"\[", r"\f", r"\s", r"\i", r"\b", r"\l", r"\m", r"\a")]
    + ["div.math img"]
)
# … classes and addresses that say they are …
MATH_IMAGE = re.compile(
    r"(?:^|[\s_-])(?:math|tex|latex|mwe-math\S*|formula(?:Inl|Dsp)?|equation|ee_img|ql-img\S*)(?:$|[\s_-])"
    r"|latex\.php|latex\.codecogs\.com|/equation\?tex=|cht=tx|mathtex\.cgi|mimetex\.cgi"
)
# … and alternative texts that can only be TeX, whatever the image is called.
TEX_ALONE = re.compile(
    r"^\s*(?:\$.+\$|\\\(.+\\\)|\\\[.+\\\])\s*$|\\(?:frac|sqrt|sum|int|begin|left|mathbb|mathrm|alpha|beta)\b", re.S
)
TEX_QUERY = re.compile(r"(?:^|&)(?:latex|tex|chl)=([^&]+)")
BASE = re.compile(
    r"(?:[\d)\]}|]|(?<![^\W\d_])[^\W\d_]{1,2}|(?<![^\W\d_])(?:log|lim|max|min|sin|cos|tan|exp|cm|mm|km|det))$"
)
SCRIPT = re.compile(r"[\w+\-−*/=,.()^{}' ]{1,40}$")
ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|eme|ème|o|a|tm|sm)$", re.I)


def keep_mathematics(tree: HTMLTree, html: str) -> None:
    """Turn every formula of the page into text, in place. `html` is the page's source: it says what to look for."""
    if "math/" in html or "data-mathml" in html:
        _keep_mathjax(tree)
    if "<math" in html or "katex" in html or "mjx-" in html or "mwe-math" in html:
        for group in _select(tree, GROUPS):
            if not _is_detached(tree, group):
                _replace(tree, group, _tex_of(group), _is_display(group))
    if "data-" in html:
        for element in _select(tree, WITH_ATTRIBUTE):
            tex = next((v for name in ATTRIBUTES if (v := element.getattr(name))), "")
            if tex and not _is_detached(tree, element):
                _replace(tree, element, tex, element.tag in ("div", "p"))
    if "<img" in html or "<IMG" in html:
        for image in _select(tree, IMAGES):
            _keep_image(tree, image)
    for tag, mark in (("sup", "^"), ("sub", "_")):
        if f"<{tag}" in html:
            for script in reversed(_select(tree, tag)):
                _keep_script(tree, script, mark)


def _keep_mathjax(tree: HTMLTree) -> None:
    """MathJax 2: the source sits in a script after the rendered formula, which goes."""
    scripts = _select(tree, "script[type^='math/tex'], script[type^='math/mml']")
    rendered = _select(tree, RENDERED)
    for element in rendered:
        mathml = element.getattr("data-mathml")
        if mathml and not scripts and not _is_detached(tree, element):
            inner = HTMLTree.parse(mathml)
            math = inner.document.query_selector("math")
            if math is not None:
                _replace(tree, element, _tex_of(math), math.getattr("display") == "block")
    for element in rendered if scripts else []:
        if element.parent is not None and not element.query_selector("script"):
            element.parent.remove_child(element)
    for script in scripts:
        kind, source = script.getattr("type") or "", script.text or ""
        display = "mode=display" in kind
        if kind.startswith("math/mml"):
            math = HTMLTree.parse(source).document.query_selector("math")
            source, display = ("", False) if math is None else (_tex_of(math), math.getattr("display") == "block")
        _replace(tree, script, source, display)


def _tex_of(group: ElementNode) -> str:
    for annotation in group.query_selector_all("annotation"):
        if (annotation.getattr("encoding") or "").lower() in ("application/x-tex", "tex", "latex", "text/x-tex"):
            return str(annotation.text or "")
    math = group if group.tag == "math" else group.query_selector("math")
    if math is not None:
        try:
            return str(math.getattr("alttext") or mathml_to_tex(math))
        except RecursionError:
            return str(math.text or "")
    image = group.query_selector("img")
    return str(image.getattr("alt") or "") if image is not None else ""


def _is_display(group: ElementNode) -> bool:
    math = group if group.tag == "math" else group.query_selector("math")
    image = group.query_selector("img") if math is None else None
    return (
        (math is not None and (math.getattr("display") == "block" or math.getattr("mode") == "display"))
        or group.getattr("display") == "true"
        or "katex-display" in (group.getattr("class") or "")
        or (image is not None and "-display" in (image.getattr("class") or ""))
    )


def _keep_image(tree: HTMLTree, image: ElementNode) -> None:
    if _is_detached(tree, image):
        return
    kind, source, alt = image.getattr("class") or "", image.getattr("src") or "", (image.getattr("alt") or "").strip()
    parent = image.parent_element
    around = (parent.getattr("class") or "") if parent is not None else ""
    if parent is not None and parent.tag == "p" and parent.parent_element is not None:
        around += " " + (parent.parent_element.getattr("class") or "")
    is_math = bool(MATH_IMAGE.search(kind) or MATH_IMAGE.search(source))
    display = "formulaDsp" in kind or "formulaDsp" in around or bool(re.search(r"(?:^|\s)math(?:$|\s)", around))
    if is_math and not alt:
        alt = _tex_in_address(source)
    if alt and (is_math or TEX_ALONE.search(alt)):
        _replace(tree, image, alt, display)


def _tex_in_address(source: str) -> str:
    """TeX that an image server was asked to draw."""
    query = urlsplit(source).query
    found = TEX_QUERY.search(query)
    tex = found[1] if found else query if "codecogs" in source or ".cgi" in source else ""
    return unquote(tex.replace("+", " ") if found else tex)


def _keep_script(tree: HTMLTree, script: ElementNode, mark: str) -> None:
    text = (script.text or "").strip()
    before = script.prev
    while before is not None and before.last_child is not None:
        before = before.last_child
    base = (before.text or "") if before is not None else ""
    if not SCRIPT.match(text) or not BASE.search(base) or script.query_selector("a, img") is not None:
        return
    if mark == "^" and ORDINAL.match(text) and not (len(text) == 1 and base[-1:].isalpha()):
        return
    simple = len(text) == 1 or text.startswith("{")
    _replace_text(tree, script, f"{mark}{text}" if simple else f"{mark}{{{text}}}")


def _is_detached(tree: HTMLTree, element: Node) -> bool:
    """Whether an ancestor of `element` was cut out of the page already."""
    return not tree.document.contains(element)


def _select(tree: HTMLTree, selector: str) -> list[ElementNode]:
    return list(tree.document.query_selector_all(selector)) if tree.document else []


def _replace(tree: HTMLTree, element: Node, tex: str, display: bool) -> None:
    tex = _without_delimiters(tex.strip())
    mark = "$$" if display else "$"
    _replace_text(tree, element, f"{mark}{tex}{mark}" if tex else "")


def _replace_text(tree: HTMLTree, element: Node, content: str) -> None:
    text = tree.create_text_node(content)
    if element.parent is not None and text is not None:
        element.parent.replace_child(text, element)


def _without_delimiters(tex: str) -> str:
    for opening, closing in DELIMITERS:
        if tex.startswith(opening) and tex.endswith(closing) and len(tex) >= len(opening) + len(closing):
            return tex[len(opening) : len(tex) - len(closing)].strip()
    return tex
