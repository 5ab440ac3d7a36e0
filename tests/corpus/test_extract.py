"""HTML to text: the formulas of every kind of mark-up survive, boilerplate does not, and hostile pages are bounded."""

import html
import re
import time
from pathlib import Path

import pytest

from corpus.config import ReadConfig
from corpus.crawl import extract_pages
from corpus.extract import PageError, html_to_text, page_text
from corpus.warc import Record

FILLER = "<p>" + "Some words about the subject of this page, so that it counts as a page. " * 5 + "</p>"


def extract(body: str) -> str:
    return html_to_text(f"<html><body><main><h1>Title</h1><p>Before {body} after.</p>{FILLER}</main></body></html>")


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (r"\(x^2\)", r"Before \(x^2\) after"),
        (r"$$\int_0^1 f$$", r"Before $$\int_0^1 f$$ after"),
        (r'<span class="math">\(a &lt; b\)</span>', r"\(a < b\)"),
        ('<script type="math/tex">a < b</script>', "Before $a < b$ after"),
        ('<script type="math/tex; mode=display">\\sum_i i</script>', r"$$\sum_i i$$"),
        ('<span class="MathJax_Preview">junk</span><script type="math/tex">x</script>', "Before $x$ after"),
        (
            '<span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>x</mi></mrow>'
            '<annotation encoding="application/x-tex">x_1</annotation></semantics></math></span>'
            '<span class="katex-html" aria-hidden="true">x1</span></span>',
            "Before $x_1$ after",
        ),
        ('<math alttext="\\alpha+1"><mi>α</mi></math>', r"$\alpha+1$"),
        ('<math display="block"><mfrac><mi>a</mi><mi>b</mi></mfrac></math>', r"$$\frac{a}{b}$$"),
        ("<math><msqrt><msup><mi>x</mi><mn>2</mn></msup></msqrt></math>", r"$\sqrt{x^{2}}$"),
        ("<math><msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup></math>", "$a_{i}^{2}$"),
        ('<img class="math" src="a.png" alt="\\frac{1}{2}"/>', r"$\frac{1}{2}$"),
        ('<img class="mwe-math-fallback-image-inline" alt="{\\displaystyle x}"/>', r"${\displaystyle x}$"),
        ('<img class="formulaInl" alt="$w \\in H^1$" src="f.png"/>', r"Before $w \in H^1$ after"),
        ('<img src="https://s0.wp.com/latex.php?latex=n" alt="n!"/>', "$n!$"),
    ],
)
def test_formulas_become_tex(markup: str, expected: str) -> None:
    assert expected in extract(markup)


def test_rendered_copies_of_a_formula_are_left_out() -> None:
    text = extract('<span class="MathJax">RENDERED</span><script type="math/tex">y</script>')
    assert "$y$" in text
    assert "RENDERED" not in text


def test_malformed_mathml_keeps_its_symbols() -> None:
    assert "$ab$" in extract("<math><mfrac><mi>a</mi><mi>b</mi><mi></mi></mfrac></math>")


def test_navigation_goes_and_code_keeps_its_indentation() -> None:
    page = f"<body><nav>Home Products</nav><main><pre>def f():\n    return 1</pre>{FILLER}</main><footer>Legal</footer>"
    text = html_to_text(f"<html>{page}</body></html>")
    assert "def f():\n    return 1" in text
    assert "Products" not in text
    assert "Legal" not in text


def test_deep_nesting_is_refused_quickly() -> None:
    started = time.monotonic()
    with pytest.raises(PageError, match="nested too deeply"):
        html_to_text("<div>" * 20_000 + "x" + "</div>" * 20_000)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("content", "charset", "expected"),
    [
        ("求和公式".encode("gb18030"), "gb18030", "求和公式"),
        ('<meta charset="gbk">求和公式'.encode("gbk"), None, "求和公式"),
        ("naïve café".encode("latin-1"), "iso-8859-1", "naïve café"),
        ("求和公式".encode(), "no-such-charset", "求和公式"),
    ],
)
def test_charsets(content: bytes, charset: str | None, expected: str) -> None:
    record = Record("http://a.org", b"<html>" + content + FILLER.encode() + b"</html>", True, charset, "f", 0)
    assert expected in page_text(record, ReadConfig())


def test_binary_and_empty_pages_are_refused() -> None:
    for content, reason in ((b"\x89PNG\0\0", "binary content"), (b"<p>short</p>", "too little text")):
        with pytest.raises(PageError, match=reason):
            page_text(Record("http://a.org", content, True, None, "f", 0), ReadConfig())


def test_formulas_of_real_pages_survive(repository: Path) -> None:
    r"""At least 98% of the \( \) formulas that the example pages' source holds are in the text."""
    found = total = 0
    for record, text in extract_pages(str(repository / "examples/pages.warc.gz"), ReadConfig(), lambda reason: None):
        squeezed = re.sub(r"\s+", "", text)
        for formula in re.findall(r"\\\(([^<>]{1,200}?)\\\)", record.content.decode()):
            total += 1
            found += re.sub(r"\s+", "", html.unescape(formula)) in squeezed
    assert total > 300
    assert found / total >= 0.98
