r"""Mathematics in HTML becomes TeX in text, before the page is parsed.

Comes in: the source of a page. Goes out: the source with every formula that was mark-up replaced by TeX between `$...$`
(inline) or `$$...$$` (display), once, however many copies of it the page holds (MathML for screen readers, rendered
spans, an image for old browsers), and selectors of the copies to leave out. TeX in the text already stays as it is.

What is recognised:
  MathJax 2   <script type="math/tex; mode=display">; without the script <span data-mathml="...">
  MathJax 3   the assistive MathML of <mjx-container>
  KaTeX       <annotation encoding="application/x-tex"> in MathML beside rendered spans
  MathML      an annotation, <math alttext="...">, otherwise the presentation mark-up (`corpus.mathml`)
  attributes  <span data-tex="..."> and the like
  images      TeX in `alt`: Sphinx, Doxygen, WordPress, Wikipedia, Zhihu; else in the address of an image server
  scripts     x<sup>2</sup> becomes x^2, x<sub>10</sub> x_{10}; ordinals, trade marks and notes stay

This works on the source, not on the parsed tree, because its time must grow with the page's size: Resiliparse finds
every element of a list anew when the list is walked, which takes minutes for some thousand formulas. For the same
reason no pattern here reads a stretch of the source twice.
"""

import re
from collections.abc import Callable
from html import escape, unescape
from urllib.parse import unquote, urlsplit

from resiliparse.parse.html import HTMLTree

from corpus.mathml import mathml_to_tex

# The rest of an opening tag. It consumes what it has read even if the tag never ends, so that nothing is read again.
ATTRIBUTES = r"""((?:[^"'<>]++|"[^"]*+(?:"|$)|'[^']*+(?:'|$))*+)"""
ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
SCRIPT = re.compile(rf"<script(?=[\s/>]){ATTRIBUTES}>", re.I)
SCRIPT_END = re.compile(r"</script\s*>", re.I)
CDATA = re.compile(r"^\s*%?\s*<!\[CDATA\[(.*?)%?\s*\]\]>\s*$", re.S)
MATH = re.compile(rf"<math(?=[\s/>]){ATTRIBUTES}>", re.I)
MATH_END = re.compile(r"</math\s*>", re.I)
PREFIX = re.compile(r"(</?)(?:mml|m):(?=[a-z])")
ANNOTATION = re.compile(
    r"""<annotation[^<>]*encoding=["']?(?:application/x-tex|text/x-tex|latex|tex)["']?[^<>]*>""", re.I
)
RENDERED = ["span.MathJax", "span.MathJax_SVG", "span.MathJax_CHTML", "div.MathJax_Display", "span.mjx-chtml"]
COPY = "data-copy-of-formula"  # marks what an attribute of its own gives the TeX of
COPIES = [".MathJax_Preview", ".katex-html", "mjx-math", "mjx-speech", f"[{COPY}]"]
DATA = ("data-tex", "data-latex", "data-formula", "data-katex")
SPAN = re.compile(rf"<span(?=[\s/>]){ATTRIBUTES}>", re.I)
IMAGE = re.compile(rf"<img(?=[\s/>]){ATTRIBUTES}>?", re.I)
# Classes and addresses of images that are formulas …
MATH_CLASS = re.compile(
    r"(?:^|\s)(?:math|tex|latex|formula(?:Inl|Dsp)?|equation|ee_img|mwe-math\S*|ql-img\S*|ztext-math)(?:$|\s)"
)
MATH_ADDRESS = re.compile(
    r"latex\.php|latex\.codecogs\.com|/equation\?tex=|cht=tx|mathtex\.cgi|mimetex\.cgi|/math/render/"
)
# … and alternative texts that can only be TeX, whatever the image is called.
TEX_ALONE = re.compile(
    r"^\$[^$]+\$$|^\\\(.+\\\)$|^\\\[.+\\\]$|\\(?:frac|sqrt|sum|int|begin|left|math[a-z]+|alpha|beta)\b", re.S
)
TEX_QUERY = re.compile(r"(?:^|&)(?:latex|tex|chl)=([^&]+)")
DISPLAY_BEFORE = re.compile(
    r"""class=["']?(?:math|formulaDsp|displaymath|katex-display)\b[^<>]*>\s*(?:<(?:p|span)\b[^<>]*>\s*)*$"""
)
DISPLAYSTYLE = r"{\displaystyle"  # Wikipedia puts every formula into one
DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"))
# What a script may stand at: a digit, a bracket, a letter or two, a function or unit; after a longer word it is a note.
BASE = re.compile(r"(?:[\d)\]}|]|(?<![^\W\d_])(?:[^\W\d_]{1,2}|log|lim|max|min|sin|cos|tan|exp|det))$")
INLINE = r"(?:</?(?:i|em|b|strong|var|span)\b[^<>]{0,200}>)"
SUP = re.compile(rf"<(su[pb])\b[^<>]*>((?:[^<>]|{INLINE}){{1,60}}+)</\1>", re.I)
TAG = re.compile(r"<[^<>]*>")
SCRIPT_TEXT = re.compile(r"[\w+\-−*/=,.()^{}' ]+$")
ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|eme|ème|tm|sm|o|a|e)$", re.I)


def keep_mathematics(html: str) -> tuple[str, list[str]]:
    """The source with formulas as text, and CSS selectors of what repeats them."""
    copies = list(COPIES)
    if "data-mathml" in html and "math/tex" not in html:
        html = SPAN.sub(_keep_data_mathml, html)
        copies += RENDERED
    if "math/" in html:
        before, html = html, _replace_elements(html, SCRIPT, SCRIPT_END, _script_tex)
        copies += RENDERED if html is not before else []
    if "<mml:" in html or "<m:math" in html:
        html = PREFIX.sub(r"\1", html)
    if "<math" in html:
        html = _replace_elements(html, MATH, MATH_END, _math_tex)
    if "<img" in html or "<IMG" in html:
        html = IMAGE.sub(_keep_image, html)
    if any(name in html for name in DATA) or "ql-formula" in html:
        html = SPAN.sub(_keep_data_tex, html)
    if "<sup" in html or "<sub" in html:
        html = _keep_scripts(html)
    return html, copies


def _replace_elements(
    html: str, opening: re.Pattern[str], closing: re.Pattern[str], text: Callable[[str, str, str], str | None]
) -> str:
    """`text(attributes, content, source before)` in place of every element; where it is None, the element stays."""
    parts, at = [], 0
    while found := opening.search(html, at):
        end = closing.search(html, found.end())
        if end is None:
            break
        before = html[max(0, found.start() - 200) : found.start()]
        replacement = text(found[1], html[found.end() : end.start()], before)
        parts += [html[at : found.start()], html[found.start() : end.end()] if replacement is None else replacement]
        at = end.end()
    return html if not at else "".join([*parts, html[at:]])


def _script_tex(attributes: str, content: str, before: str) -> str | None:
    if "math/" not in attributes:
        return None
    kind = _attributes(attributes).get("type", "")
    if kind.startswith("math/mml"):
        inner = MATH.search(content)
        return _math_tex(inner[1], content[inner.end() :], before) if inner else ""
    if not kind.startswith("math/tex"):
        return None
    cdata = CDATA.match(content)
    return _formula(cdata[1] if cdata else content, "mode=display" in kind)


def _math_tex(attributes: str, content: str, before: str) -> str:
    named = _attributes(attributes)
    display = named.get("display") == "block" or named.get("mode") == "display" or "katex-display" in before[-150:]
    annotation = ANNOTATION.search(content)
    if annotation is not None:
        end = content.find("</annotation", annotation.end())
        return _formula(unescape(content[annotation.end() : None if end < 0 else end]), display)
    if named.get("alttext", "").strip():
        return _formula(named["alttext"], display)
    document = HTMLTree.parse(f"<math>{content}</math>").document
    math = document.query_selector("math") if document is not None else None
    if math is None:
        return ""
    try:
        return _formula(mathml_to_tex(math), display)
    except RecursionError:  # some hundreds deep: the symbols without the structure
        return _formula(" ".join((math.text or "").split()), display)


def _keep_data_mathml(found: re.Match[str]) -> str:
    mathml = _attributes(found[1]).get("data-mathml", "")
    math = MATH.search(mathml)
    return (_math_tex(math[1], MATH_END.sub("", mathml[math.end() :]), "") if math else "") + found[0]


def _keep_data_tex(found: re.Match[str]) -> str:
    named = _attributes(found[1])
    tex = next((named[name] for name in DATA if named.get(name)), "")
    if not tex and "ql-formula" in named.get("class", ""):
        tex = named.get("data-value", "")
    if not tex or tex.lower() in ("true", "false", "0", "1"):  # a switch of some script, not a formula
        return found[0]
    return f"{_formula(tex, False)}<span {COPY}{found[0][len('<span') :]}"


def _keep_image(found: re.Match[str]) -> str:
    tag = found[0]
    # Most images are none; what makes one a formula is in its tag.
    if "alt" not in tag and "?" not in tag:
        return tag
    named = _attributes(found[1])
    kind, source, alt = named.get("class", ""), named.get("src", ""), named.get("alt", "").strip()
    tex = alt or named.get("data-formula", "") or named.get("data-latex", "")
    is_math = MATH_CLASS.search(kind) is not None or MATH_ADDRESS.search(source) is not None
    if is_math and not tex:
        tex = _tex_in_address(source)
    if not tex or not (is_math or TEX_ALONE.search(tex)):
        before = found.string[max(0, found.start() - 200) : found.start()]
        if not tex or "math" not in before or DISPLAY_BEFORE.search(before) is None:
            return tag
    before = found.string[max(0, found.start() - 200) : found.start()]
    return _formula(tex, "-display" in kind or "Dsp" in kind or DISPLAY_BEFORE.search(before) is not None)


def _tex_in_address(source: str) -> str:
    """TeX that an image server was asked to draw."""
    query = urlsplit(source).query
    found = TEX_QUERY.search(query)
    if found:
        return unquote(found[1].replace("+", " "))
    return unquote(query) if "codecogs" in source or ".cgi" in source else ""


def _keep_scripts(html: str) -> str:
    for _ in range(2):  # a script in a script: the inner one first
        html, changed = SUP.subn(_keep_script, html)
        if not changed:
            break
    return html


def _keep_script(found: re.Match[str]) -> str:
    text = TAG.sub("", found[2]).strip()
    base = TAG.sub("", found.string[max(0, found.start() - 40) : found.start()].rpartition("\n")[2])
    base = base.rpartition(">")[2]  # a tag that began further back
    if not text or not SCRIPT_TEXT.match(text) or not BASE.search(base):
        return found[0]
    raised = found[1].lower() == "sup"
    # "1st", "10e" are ordinals; so are all of these after a digit, but x^a is not.
    if raised and ORDINAL.match(text) and (len(text) > 1 or base[-1].isdigit()):
        return found[0]
    mark = "^" if raised else "_"
    return f"{mark}{text}" if len(text) == 1 else f"{mark}{{{text}}}"


def _attributes(tag: str) -> dict[str, str]:
    """Names in lower case and values of an opening tag; the first of a name counts."""
    found = reversed(ATTRIBUTE.findall(tag))
    return {name.lower(): unescape(double or single or bare) for name, double, single, bare in found}


def _formula(tex: str, display: bool) -> str:
    """TeX as text of HTML, in the delimiters of this corpus."""
    tex = tex.strip()
    for opening, closing in DELIMITERS:
        if tex.startswith(opening) and tex.endswith(closing) and len(tex) > len(opening) + len(closing):
            display = display or opening in ("$$", r"\[")
            tex = tex[len(opening) : len(tex) - len(closing)].strip()
            break
    if tex.startswith(DISPLAYSTYLE) and _is_one_group(tex):
        tex = tex[len(DISPLAYSTYLE) : -1].strip()
    mark = "$$" if display else "$"
    return f"{mark}{escape(tex, quote=False)}{mark}" if tex else ""


def _is_one_group(tex: str) -> bool:
    """Whether the brace that `tex` starts with is closed by the one that it ends with."""
    depth = 0
    for n, character in enumerate(tex):
        depth += (character == "{") - (character == "}")
        if not depth:
            return n == len(tex) - 1
    return False
