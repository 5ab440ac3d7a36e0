"""report.html in a browser: what its viewer shows, what it must never run, and whether everyone can read it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.report import Rollouts, gather, write_report
from evals.scoring import Intervals
from tests.browser import Page

CHECKPOINTS = ("sft", "grpo")
TITLES = {"word_problems": "Word problems", "math": "MATH"}
ATTACK = (
    '<script>window.ran = 1</script><img src=x onerror="window.ran = 2"></script>'
    r"$\href{javascript:window.ran=3}{x}$ $\htmlData{x=1}{y}$ $\includegraphics{http://127.0.0.1/x.png}$"
)
SOLUTION = (
    r"It costs $5 and then $6. So $x = \frac{1}{2}$ and $$\sum_{i=1}^n i$$ but $\frac{1$ is broken. \boxed{\frac{1}{2}}"
)
MANY = 10_000  # answers
Lines = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def report_html(tmp_path_factory: pytest.TempPathFactory, lines: Lines) -> Path:
    """A page with 10,000 answers, an attack and formulas among them, and one group of rollouts of each kind."""
    folder = tmp_path_factory.mktemp("page")
    samples = {b: {c: lines(b, c, problems=640, samples=3) for c in CHECKPOINTS} for b in TITLES}
    first, second = samples["math"]["grpo"][:2]
    second["gold"] = r"\frac{1}{2}"
    first["completions"][0]["text"], second["completions"][0]["text"] = ATTACK, SOLUTION
    for stage in CHECKPOINTS:
        (folder / stage).mkdir()
        metrics = {
            "curve": [[1, 2.0], [2, 1.0]],
            "held_out_reliability": [{"predicted": 0.2, "label": 0.3, "steps": 9}],
        }
        counts = {"in": 1, "out": 1, "dropped": {}}
        manifest = {"metrics": metrics, "counts": counts, "wall_seconds": 5.0, "peak_memory_bytes": 1}
        for name in (stage, "reward"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "manifest.json").write_text(json.dumps(manifest))
    run = {"name": "browsed", "profile": "tiny", "code_version": "abc"}
    report = gather(folder, run, TITLES, {c: folder / c for c in CHECKPOINTS}, samples, Intervals(draws=20))
    write_report(folder, report, samples, MANY, Rollouts([outcome_group(), process_group()], 4, 40))
    return folder / "report.html"


def rollout(text: str, reward: float, advantage: float) -> dict[str, Any]:
    line = {"question": "What is 1 + 1?", "gold": "2", "output": text, "reward": reward, "advantage": advantage}
    return {**line, "tokens": 10, "finish_reason": "stop"}


def outcome_group() -> list[dict[str, Any]]:
    """Outcome supervision: an output has one advantage."""
    return [{**rollout("1+1=2\n#### 2", 1, 1.0), "step": 1}, {**rollout("#### 3", 0, -1.0), "step": 1}]


def process_group() -> list[dict[str, Any]]:
    """Process supervision: every step has its own."""
    steps = [{"text": "1+1=3\n", "advantage": -0.8}, {"text": "#### 2", "advantage": 1.2}]
    return [{**rollout("1+1=3\n#### 2", 1, 0.2), "step": 2, "steps": steps}, {**rollout("#### 4", 0, -0.2), "step": 2}]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    page = Page(tmp_path_factory.mktemp("browser"))
    yield page
    page.close()


@pytest.fixture
def page(browser: Page, report_html: Path) -> Page:
    browser.errors.clear()
    browser.requests.clear()
    browser.theme("light")
    browser.open(report_html.as_uri())
    return browser


def choose(page: Page, control: str, value: str) -> None:
    """Set a control of the viewer as a reader would."""
    page.run(f"{control}.value = {json.dumps(value)}; {control}.dispatchEvent(new Event('input'))")


def shown(page: Page) -> str:
    return str(page.run("document.getElementById('shown').innerText"))


def count(page: Page) -> int:
    return int(page.run("document.getElementById('count').textContent.replace(',', '')").split()[0])


def show_solution(page: Page, words: str) -> None:
    choose(page, "search", words)
    page.wait_for("document.getElementById('count').textContent.startsWith('1 found')")


def loaded(page: Page) -> list[str]:
    """What the page asked for beyond itself; fonts that it carries are no requests."""
    return [url for url in page.requests[1:] if not url.startswith("data:")]


def test_loads_nothing_and_reports_no_error(page: Page, report_html: Path) -> None:
    assert page.requests[0] == report_html.as_uri() and loaded(page) == []
    assert page.errors == []


def test_what_a_model_wrote_stays_text(page: Page) -> None:
    show_solution(page, "onerror")
    assert page.run("window.ran") is None
    assert page.run("document.querySelectorAll('#shown :is(script, img, a, iframe, [onerror], [data-x])').length") == 0
    assert '<script>window.ran = 1</script><img src=x onerror="window.ran = 2"></script>' in shown(page)
    assert loaded(page) == []


def test_formulas_are_drawn_and_prices_are_not(page: Page) -> None:
    show_solution(page, "it costs $5")
    formulas = page.run("[...document.querySelectorAll('.output annotation')].map(a => a.textContent)")
    assert formulas == [r"x = \frac{1}{2}", r"\sum_{i=1}^n i", r"\boxed{\frac{1}{2}}"]
    assert page.run("document.querySelector('.facts annotation').textContent") == r"\frac{1}{2}"
    assert "It costs $5 and then $6." in shown(page) and r"$\frac{1$ is broken" in shown(page)
    assert page.run("document.fonts.ready.then(() => document.fonts.check('12px KaTeX_Main'))")
    page.run("document.getElementById('drawn').click()")
    assert SOLUTION in shown(page)


def test_filters_count_as_the_samples_do(page: Page) -> None:
    rows = json.loads(page.run("document.getElementById('data').textContent"))["answers"]
    assert count(page) == len(rows) == MANY
    choose(page, "verdict", "right")
    assert count(page) == sum(row["r"] for row in rows)
    choose(page, "benchmark", "math")
    choose(page, "checkpoint", "grpo")
    choose(page, "verdict", "wrong")
    choose(page, "mode", "greedy")
    wanted = [r for r in rows if (r["b"], r["c"], r["m"], r["r"]) == ("math", "grpo", "greedy", False)]
    assert count(page) == len(wanted) > 0


def test_ten_thousand_answers_do_not_freeze_the_page(page: Page) -> None:
    assert page.run("document.querySelectorAll('.row').length") < 60
    choose(page, "search", "seen once")
    page.wait_for("document.getElementById('count').textContent.startsWith('0 found')")
    milliseconds = page.run(
        "(() => { const t = performance.now(); search.value = 'what'; verdict.dispatchEvent(new Event('input'));"
        " list.getBoundingClientRect(); return performance.now() - t; })()"
    )
    assert milliseconds < 1000 and count(page) == MANY
    page.run("list.scrollTop = list.scrollHeight")
    page.wait_for(f"document.getElementById('row-{MANY - 1}') !== null")


def test_keys_move_through_the_list(page: Page) -> None:
    page.run("list.focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "End", "Home", "ArrowDown"):
        page.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
    assert page.run("list.getAttribute('aria-activedescendant')") == "row-1"
    assert page.run("document.querySelector('[aria-selected=true]').getAttribute('aria-posinset')") == "2"


def test_advantages_colour_an_output_or_its_steps(page: Page) -> None:
    page.run("document.querySelector('[value=rollouts]').click()")
    assert count(page) == 4
    told = "[s.textContent, s.title, s.style.getPropertyValue('--tint')]"
    tints = f"[...document.querySelectorAll('.advantage')].map(s => {told})"
    assert page.run(tints) == [["1+1=2\n#### 2", "advantage +1.0000", "var(--plus)"]]
    assert "✗ 3, −1.00" in shown(page)  # its sibling
    choose(page, "step", "2")
    assert page.run(tints) == [
        ["1+1=3", "advantage −0.8000", "var(--minus)"],
        ["#### 2", "advantage +1.2000", "var(--plus)"],
    ]
    backgrounds = page.run("[...document.querySelectorAll('.advantage')].map(s => getComputedStyle(s).backgroundColor)")
    assert len(set(backgrounds)) == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessibility_rules_are_kept(page: Page, theme: str) -> None:
    page.theme(theme)
    page.run("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.barriers() == []
    page.run("document.querySelector('[value=rollouts]').click()")
    assert page.barriers("'#viewer'") == []


def test_prints_light_with_every_table_and_without_controls(page: Page) -> None:
    page.theme("dark")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run("getComputedStyle(document.body).color") == "rgb(28, 33, 40)"
    for hidden in ("#viewer", ".bar"):
        assert page.run(f"document.querySelector('{hidden}').getClientRects().length") == 0
    folded = "document.querySelector('details:not([open]) table').checkVisibility({contentVisibilityAuto: true})"
    assert page.run(folded) and page.run("document.querySelector('details:not([open]) table').offsetHeight") > 20
    page.call("Emulation.setEmulatedMedia", media="")
    assert page.pdf().count(b"/Type /Page\n") > 1


def test_theme_button_turns_the_page_dark(page: Page) -> None:
    light = page.run("getComputedStyle(document.body).backgroundColor")
    page.run("document.getElementById('theme').click()")
    assert page.run("getComputedStyle(document.body).backgroundColor") != light


def test_pointer_over_a_chart_reads_its_values(page: Page) -> None:
    """The training curve of the fixture goes from (1, 2.0) to (2, 1.0)."""
    page.run("for (const d of document.querySelectorAll('details')) d.open = true")
    chart = "document.querySelector('svg[aria-label=\"sft: loss\"]')"
    page.run(f"{chart}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = page.run(f"(b => [b.x, b.y, b.width, b.height])({chart}.getBoundingClientRect())")
    for share, said in ((0.12, "step 1\nloss: 2"), (0.95, "step 2\nloss: 1")):
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + share * box[2], y=box[1] + box[3] / 2)
        assert page.run("document.getElementById('told').innerText.trim()") == said
