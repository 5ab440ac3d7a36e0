"""HTML to text: the formulas of every kind of mark-up survive, boilerplate does not, and hostile pages are bounded."""

import html
import json
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
        ('<img class="mwe-math-fallback-image-inline" alt="{\\displaystyle x}"/>', "Before $x$ after"),
        ('<img class="formulaInl" alt="$w \\in H^1$" src="f.png"/>', r"Before $w \in H^1$ after"),
        ('<img src="https://s0.wp.com/latex.php?latex=n" alt="n!"/>', "$n!$"),
        ("as $latex x^2$ in WordPress", "Before as $x^2$ in WordPress after"),
        ('<script type="math/tex">% <![CDATA[ a < b %]]></script>', "Before $a < b$ after"),
        (
            '<span class="MathJax" data-mathml="&lt;math&gt;&lt;mi&gt;q&lt;/mi&gt;&lt;/math&gt;">RENDERED</span>',
            "$q$ after",
        ),
        ('<script type="math/mml"><math><msup><mi>e</mi><mi>x</mi></msup></math></script>', "Before $e^{x}$ after"),
        ("<mml:math><mml:mi>x</mml:mi><mml:mo>≤</mml:mo><mml:mn>1</mml:mn></mml:math>", r"Before $x\leq1$ after"),
        ('<span data-tex="x_1">x1</span>', "Before $x_1$ after"),
        ('<span class="ql-formula" data-value="e=mc^2">e=mc2</span>', "Before $e=mc^2$ after"),
        ('<img alt="\\frac{a}{b}" src="anything.png">', r"Before $\frac{a}{b}$ after"),
        ('<img src="https://latex.codecogs.com/gif.latex?x%5E2">', "Before $x^2$ after"),
        ('<img src="https://www.zhihu.com/equation?tex=a%2Bb" alt="a+b" eeimg="1">', "Before $a+b$ after"),
        ('<div class="math"><p><img src="m.png" alt="A = B"/></p></div>', "$$A = B$$"),
        ('<span data-tex="true">Total</span>', "Before Total after"),
        ("<math-renderer>$a$</math-renderer> and <math><mi>b</mi></math>", "Before $a$ and $b$ after"),
        ("x<sup>2</sup>", "Before x^2 after"),
        ("x<sup>10</sup>", "Before x^{10} after"),
        ("<i>a</i><sub><i>n</i>+1</sub>", "Before a_{n+1} after"),
        ("e<sup>x<sub>i</sub></sup>", "Before e^{x_i} after"),
        ("log<sub>2</sub> <i>n</i>", "Before log_2 n after"),
        ("the 1<sup>st</sup>", "Before the 1st after"),
        ("a theory<sup>2</sup>", "Before a theory2 after"),
        ('Gauss<sup><a href="#n1">[1]</a></sup>', "Before Gauss[1] after"),
        ("中文里的公式 \\(x+y\\) 也保留", r"Before 中文里的公式 \(x+y\) 也保留 after"),
    ],
)
def test_formulas_become_tex(markup: str, expected: str) -> None:
    assert expected in extract(markup)


def test_rendered_copies_of_a_formula_are_left_out() -> None:
    text = extract('<span class="MathJax">RENDERED</span><script type="math/tex">y</script>')
    assert "$y$" in text
    assert "RENDERED" not in text


WIKIPEDIA = (
    '<span class="mwe-math-element"><span class="mwe-math-mathml-inline mwe-math-mathml-a11y" style="display: none;">'
    '<math alttext="{\\displaystyle N}"><semantics><mi>N</mi>'
    '<annotation encoding="application/x-tex">{\\displaystyle N}</annotation></semantics></math></span><img src="https://wikimedia.org/api/rest_v1/media/math/render/svg/f5e3"'
    ' class="mwe-math-fallback-image-inline" aria-hidden="true" alt="{\\displaystyle N}"/></span>'
)


def test_a_formula_of_wikipedia_is_there_once() -> None:
    assert extract(WIKIPEDIA).count("$N$") == 1


def test_formulas_that_engines_rendered_come_out_once_as_tex() -> None:
    """What KaTeX and MathJax write for 54 formulas. The texts were read against the sources, and KaTeX renders them."""
    cases = [json.loads(line) for line in (Path(__file__).parent / "rendered_formulas.jsonl").read_text().splitlines()]
    assert len(cases) == 54
    for case in cases:
        text = " ".join(extract(case["html"]).split())
        assert text.startswith(f"Title Before {case['text']} after."), (case["renderer"], case["source"])


@pytest.mark.parametrize(
    "image",
    [
        '<img src="cat.png" alt="A cat on a mat">',
        '<img src="latex-gloves.jpg" alt="Latex gloves for sale">',
        '<img class="context-texture" src="t.png" alt="C:\\temp\\new">',
        '<img src="p.png" alt="It costs $5">',
        '<img class="math-cover" src="c.png" alt="A book of mathematics">',
    ],
)
def test_pictures_are_no_formulas(image: str) -> None:
    assert "Before $" not in extract(image)


def test_malformed_mathml_keeps_its_symbols() -> None:
    assert "$ab$" in extract("<math><mfrac><mi>a</mi><mi>b</mi><mi></mi></mfrac></math>")


def test_navigation_goes_and_code_keeps_its_indentation() -> None:
    page = f"<body><nav>Home Products</nav><main><pre>def f():\n    return 1</pre>{FILLER}</main><footer>Legal</footer>"
    text = html_to_text(f"<html>{page}</body></html>")
    assert "def f():\n    return 1" in text
    assert "Products" not in text
    assert "Legal" not in text


def test_sections_named_like_page_furniture_are_content() -> None:
    sections = ("related-functions", "binary-search", "modal-logic", "popular-choices", "comments", "links")
    body = "".join(f'<section id="{i}"><h2>{i}</h2><p>Kept \\(x_{n}\\).</p></section>' for n, i in enumerate(sections))
    text = html_to_text(f'<html><body><div role="main">{body}{FILLER}</div></body></html>')
    assert [n for n in range(len(sections)) if f"\\(x_{n}\\)" in text] == list(range(len(sections)))


def test_lists_near_the_body_are_content_when_they_hold_text() -> None:
    prose = "<ul><li>The sum $a+b$ of <a href='#a'>a</a> and b.</li><li>The product $ab$.</li></ul>"
    menu = "".join(f'<li><a href="{n}">Product {n}</a></li>' for n in range(30))
    text = html_to_text(f"<html><body><h1>T</h1>{prose}<ul>{menu}</ul>{FILLER}</body></html>")
    assert "• The sum $a+b$ of a and b." in text
    assert "• The product $ab$." in text
    assert "Product 7" not in text


def test_tables_keep_a_line_for_each_row() -> None:
    rows = (
        "<tr><th>n</th><th>f(n)</th></tr><tr><td>1</td><td>\\(a_1\\)</td></tr><tr><td>2</td><td>x<sup>2</sup></td></tr>"
    )
    lines = [line.split() for line in extract(f"<table>{rows}</table>").splitlines()]
    assert lines[lines.index(["n", "f(n)"]) :][:3] == [["n", "f(n)"], ["1", r"\(a_1\)"], ["2", "x^2"]]


@pytest.mark.parametrize(
    "body",
    [
        "<p><math><mi>x</mi><mo>=</mo><mn>1</mn></math></p>" * 5_000,
        "<math alttext='" * 50_000,
        "<math>" + "<mo>a</mo>" * 20_000 + "</math>",
        "<math>" + "<mrow>" * 5_000 + "x" + "</mrow>" * 5_000 + "</math>",
        "<img class=math alt='x^2'>" * 20_000,
        '<img alt="' * 100_000,
        "<img " + '"' * 1_000_000,
        '<script type="math/tex">' * 40_000,
        "x<sup>2</sup>" * 50_000,
        "<span data-tex='" * 60_000,
        "<ul><li>a $x$ b<a>x</a></ul>" * 5_000,
        "<div" + ' class="section' * 50_000,
        "<table><tr><td>" * 60,
        "<!--" * 100_000,
    ],
    ids=lambda body: body[:20],
)
def test_time_grows_with_the_size_of_a_page_alone(body: str) -> None:
    started = time.process_time()
    html_to_text(f"<html><body>{FILLER}{body}{FILLER}</body></html>")
    assert time.process_time() - started < 5


@pytest.mark.parametrize("tag", ["div", "b", "math"])
def test_deep_nesting_is_refused_quickly(tag: str) -> None:
    started = time.process_time()
    with pytest.raises(PageError, match="nested too deeply"):
        html_to_text(f"<{tag}>" * 20_000 + "x")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("content", "charset", "expected"),
    [
        ("求和公式".encode("gb18030"), "gb18030", "求和公式"),
        ('<meta charset="gbk">求和公式'.encode("gbk"), None, "求和公式"),
        ("naïve café".encode("latin-1"), "iso-8859-1", "naïve café"),
        ("求和公式".encode(), "no-such-charset", "求和公式"),
        ("naïve café".encode(), "iso-8859-1", "naïve café"),  # the server's default, not the page's charset
        ("日本の数学".encode("iso-2022-jp"), "iso-2022-jp", "日本の数学"),
        ("求和".encode() + b"\xff\xfe" + "公式".encode(), "utf-8", "求和公式"),
    ],
)
def test_charsets(content: bytes, charset: str | None, expected: str) -> None:
    record = Record("http://a.org", b"<html>" + content + FILLER.encode() + b"</html>", True, charset, "f", 0)
    assert expected in page_text(record, ReadConfig())


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_told_from_binary_content_by_its_byte_order_mark(charset: str) -> None:
    content = f"\ufeff<html><p>求和公式</p>{FILLER}</html>".encode(charset)
    assert "求和公式" in page_text(Record("http://a.org", content, True, None, "f", 0), ReadConfig())


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
