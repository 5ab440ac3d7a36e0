"""A page's bytes become its text, with the mathematics kept as TeX and the boilerplate left out.

Comes in: one record of an archive. Goes out: text of lines and paragraphs, or PageError with the reason to count.
Every step is bounded: the page's size, its depth of nesting (the time of text extraction grows with its square).

Main content is told from boilerplate by Resiliparse, which judges elements by tag, class, id and share of links. On
mathematical pages two of its rules cut into the content: the ids of sections, and lists near the body. What they
would take is shielded from them.
"""

import re

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5
from resiliparse.parse.html import ElementNode, HTMLTree

from corpus.config import ReadConfig
from corpus.math_markup import keep_mathematics
from corpus.warc import Record

UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # byte order marks
BOILERPLATE = ["a.headerlink", "[role=search]", "noscript", "svg"]
FORMULA = re.compile(r"\$[^$]+\$|\\[(\[]")
WORDPRESS = re.compile(r"\$latex\s+([^$]+)\$")
# The id of a section is its heading; Resiliparse takes "modal-logic" for a dialog, "related-functions" for links.
SECTION_ID = re.compile(
    r"""(<(?:section|table|dl|ol|p|pre)(?=\s)[^<>]{0,300}?|<div\s[^<>]{0,300}?class="section[^<>]{0,300}?)\sid=(?:"[^"<>]*"|[^\s"<>]+)""",
    re.I,
)
CHROME = re.compile(r"\b(?:nav|menu|footer|header|sidebar|breadcrumbs?|pagination|toc|tabs|share|social)", re.I)


class PageError(Exception):
    """This page has no usable text; the message is the reason to count."""


def page_text(record: Record, config: ReadConfig) -> str:
    """The text of one page."""
    if b"\0" in record.content[:4096] and record.content[:2] not in UTF16:
        raise PageError("binary content")
    source = _decode(record)
    text = html_to_text(source, config.max_depth) if record.is_html else source.strip()
    if len(text) < config.min_text_chars:
        raise PageError("too little text")
    return text


def html_to_text(html: str, max_depth: int = 400) -> str:
    """Main text of an HTML page: paragraphs on lines of their own, code with its indentation, formulas as TeX."""
    try:
        html, copies = keep_mathematics(SECTION_ID.sub(r"\1", html))
        tree = HTMLTree.parse(html)
        if tree.body is None:
            raise PageError("no body")
        if tree.body.query_selector(" > ".join(["*"] * max_depth)) is not None:
            raise PageError("nested too deeply")
        for element in _shallow_lists(tree.body, 3) if "<ul" in html else []:
            if _is_content(element):
                _deepen(tree, element)
        text = str(extract_plain_text(tree, main_content=True, skip_elements=BOILERPLATE + copies))
    except (ValueError, RuntimeError, UnicodeError) as error:
        raise PageError("unreadable HTML") from error
    if "$latex" in text:
        text = WORDPRESS.sub(lambda found: f"${found[1].strip()}$", text)
    return text.strip()


def _shallow_lists(element: ElementNode, depth: int) -> list[ElementNode]:
    """The lists in the elements nearest to `element`; walked, because Resiliparse's lists take quadratic time."""
    found, child = [], element.first_element_child
    while child is not None:
        if child.tag == "ul":
            found.append(child)
        elif depth and child.tag not in ("nav", "header", "footer", "aside") and not CHROME.search(_name(child)):
            found += _shallow_lists(child, depth - 1)
        child = child.next_element_sibling
    return found


def _is_content(ul: ElementNode) -> bool:
    """A list of prose or formulas, not of links; Resiliparse leaves out every list near the body."""
    text = ul.text or ""
    if CHROME.search(_name(ul)) or (len(text) < 200 and FORMULA.search(text) is None):
        return False
    return sum(len(a.text or "") for a in _links(ul)) <= len(text) / 2


def _links(element: ElementNode) -> list[ElementNode]:
    found, child = [], element.first_element_child
    while child is not None:
        found += [child] if child.tag == "a" else _links(child)
        child = child.next_element_sibling
    return found


def _name(element: ElementNode) -> str:
    return f"{element.getattr('class') or ''} {element.getattr('id') or ''} {element.getattr('role') or ''}"


def _deepen(tree: HTMLTree, ul: ElementNode) -> None:
    """Put a list where lists are content: without links, below elements that mean nothing."""
    for link in _links(ul):
        text = tree.create_text_node(link.text or "")
        if link.parent is not None and text is not None:
            link.parent.replace_child(text, link)
    for _ in range(4):
        parent, wrapper = ul.parent, tree.create_element("div")
        if parent is not None and wrapper is not None:
            parent.replace_child(wrapper, ul)
            wrapper.append_child(ul)


def _decode(record: Record) -> str:
    """UTF-8 where the bytes are that; else the charset of the HTTP header, of the page, or a guess; wrong bytes go."""
    content = record.content
    if not content.isascii():  # what is valid UTF-8 beyond ASCII is no accident, whatever a server's default says
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
    declared = map_encoding_to_html5(record.charset, fallback_utf8=False) if record.charset else None
    encoding = UTF16.get(content[:2]) or declared or detect_encoding(content, from_html_meta=True) or "utf-8"
    return str(bytes_to_str(content, encoding, errors="ignore"))
