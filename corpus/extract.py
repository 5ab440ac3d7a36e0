"""A page's bytes become its text, with the mathematics kept as TeX and the boilerplate left out.

Comes in: one record of an archive. Goes out: text of lines and paragraphs, or PageError with the reason to count.
Every step is bounded: the page's size, its depth of nesting (the time of text extraction grows with its square).
"""

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5
from resiliparse.parse.html import HTMLTree

from corpus.config import ReadConfig
from corpus.math_markup import keep_mathematics
from corpus.warc import Record

BOILERPLATE = ["a.headerlink", ".MathJax_Preview", "[role=search]", "noscript"]


class PageError(Exception):
    """This page has no usable text; the message is the reason to count."""


def page_text(record: Record, config: ReadConfig) -> str:
    """The text of one page."""
    if b"\0" in record.content[:4096]:
        raise PageError("binary content")
    source = _decode(record)
    text = html_to_text(source, config.max_depth) if record.is_html else source.strip()
    if len(text) < config.min_text_chars:
        raise PageError("too little text")
    return text


def html_to_text(html: str, max_depth: int = 400) -> str:
    """Main text of an HTML page: paragraphs on lines of their own, code with its indentation, formulas as TeX."""
    try:
        tree = HTMLTree.parse(html)
        if tree.body is None:
            raise PageError("no body")
        if tree.body.query_selector(" > ".join(["*"] * max_depth)) is not None:
            raise PageError("nested too deeply")
        keep_mathematics(tree)
        text = extract_plain_text(tree, main_content=True, skip_elements=BOILERPLATE)
    except (ValueError, RuntimeError, UnicodeError) as error:
        raise PageError("unreadable HTML") from error
    return str(text).strip()


def _decode(record: Record) -> str:
    """Charset from the HTTP header if it is one, else from the page's declaration or its bytes; wrong bytes go."""
    declared = map_encoding_to_html5(record.charset, fallback_utf8=False) if record.charset else None
    encoding = declared or detect_encoding(record.content, from_html_meta=True) or "utf-8"
    return str(bytes_to_str(record.content, encoding, errors="ignore"))
