"""Decontamination: planted problems are found however they are disguised, clean text is not touched."""

import html
import json
import re
from pathlib import Path

import pytest
import yaml

from corpus.config import BenchmarkFile, DecontaminationConfig
from corpus.decontaminate import BenchmarkText, Decontaminator, Match, load_benchmarks
from corpus.extract import html_to_text
from corpus.normalize import for_matching
from stage import UsageError

PROBLEM = "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins."
CHINESE = "妈咪买了3盒茶叶，一盒茶叶有6小包，一共买了多少小包茶叶？"
FORMULA = (
    r"Evaluate $\left(\frac{\pi}{2}\right)^2 \times 1,\!500 - \sqrt{x^2 + \varepsilon}$ "
    r"when $x \leq 4$ and $\varepsilon \geq 9$."
)
SHORT = "What is the derivative of tan?"  # six tokens
AROUND = "An unrelated sentence that stands before the planted text in this page. {} And another one behind it."


@pytest.fixture(scope="module")
def check() -> Decontaminator:
    texts = [
        ("gsm8k", "7", PROBLEM),
        ("cmath", "3", CHINESE),
        ("math", "1", SHORT),
        ("math", "5", FORMULA),
        ("math", "2", "42"),
    ]
    return Decontaminator([BenchmarkText(b, p, for_matching(t)) for b, p, t in texts], DecontaminationConfig())


@pytest.mark.parametrize(
    ("planted", "benchmark", "problem"),
    [
        (PROBLEM, "gsm8k", "7"),
        (PROBLEM.upper(), "gsm8k", "7"),
        (PROBLEM.replace(" ", "\n\t "), "gsm8k", "7"),
        (PROBLEM.replace("16", "１６").replace(".", "!"), "gsm8k", "7"),
        ("she eats three for breakfast every morning and bakes muffins", "gsm8k", "7"),
        (CHINESE, "cmath", "3"),
        (CHINESE.replace("3", "３").replace("，", " "), "cmath", "3"),
        ("what is the DERIVATIVE of $\\tan$", "math", "1"),
        (PROBLEM.replace("ck", "c\u00adk").replace("gg", "g\u200b\ufeffg"), "gsm8k", "7"),
        (PROBLEM.replace("e", "e\u0332").replace("day", "\u202eday\u202c"), "gsm8k", "7"),
        (PROBLEM.translate({ord("1"): "\u0661", ord("6"): "\u0666"}), "gsm8k", "7"),
        (PROBLEM.translate({ord(c): chr(0x1D44E + ord(c) - 97) for c in "abcdefg"}), "gsm8k", "7"),
        (PROBLEM.translate({ord(c): chr(0xFF41 + ord(c) - 97) for c in "abcdefghij"}), "gsm8k", "7"),
        (CHINESE.replace("茶", "茶\u200b"), "cmath", "3"),
        (FORMULA.replace(r",\!", "{,}").replace(r"\frac", r"\dfrac").replace(r"\left", r"\bigl"), "math", "5"),
        (FORMULA.replace(r"\times", r"\,\times\;").replace(r"\leq", r"\le").replace(" - ", r" \quad - "), "math", "5"),
        ("Evaluate (π/2)² × 1500 − √(x² + ε) when x ≤ 4 and ε ≥ 9.", "math", "5"),
        ("evaluate (𝜋⁄2)^2×1,500−√(𝑥²+𝜀) when 𝑥⩽4 and 𝜀⩾9", "math", "5"),
    ],
)
def test_disguised_problems_are_found(check: Decontaminator, planted: str, benchmark: str, problem: str) -> None:
    match = check.find(AROUND.format(planted))
    assert match is not None
    assert (match.benchmark, match.problem) == (benchmark, problem)


def test_a_problem_split_by_markup_is_found(check: Decontaminator) -> None:
    body = PROBLEM.replace("eggs", "<b>eg</b>gs").replace("three", "<i>three</i>").replace("ducks", "<a>ducks</a>")
    filler = "<p>" + "Other words of the page. " * 20 + "</p>"
    match = check.find(html_to_text(f"<html><body><p>{body}</p>{filler}</body></html>"))
    assert match is not None
    assert match.benchmark == "gsm8k"


def test_a_problem_in_character_references_and_hidden_marks_is_found(check: Decontaminator) -> None:
    letters = "".join(f"&#{ord(c)};" if n % 2 else f"&#x{ord(c):x};" for n, c in enumerate(PROBLEM))
    hidden = (
        PROBLEM.replace("breakfast", "break&shy;fast").replace("muffins", "muf<wbr>fins").replace(" lay", "&nbsp;lay")
    )
    filler = "<p>" + "Other words of the page. " * 20 + "</p>"
    for body in (letters, hidden):
        assert check.find(html_to_text(f"<html><body><p>{body}</p>{filler}</body></html>")) is not None


def test_nine_tokens_of_a_long_problem_are_not_enough(check: Decontaminator) -> None:
    nine = "eats three for breakfast every morning and bakes muffins"
    assert len(nine.split()) == 9
    assert check.find(AROUND.format(nine)) is None


def test_part_of_a_short_text_is_not_enough(check: Decontaminator) -> None:
    assert check.find("What is the derivative of cos, and the derivative of tan?") is None


def test_texts_under_three_tokens_are_ignored(check: Decontaminator) -> None:
    assert check.find("The answer is 42.") is None


def test_the_match_names_the_ngram(check: Decontaminator) -> None:
    ngram = "ducks lay 16 eggs per day she eats three for"
    assert check.find("ducks lay 16 eggs per day; she eats three for") == Match("gsm8k", "7", ngram)


def test_hash_index_agrees_with_a_plain_search(repository: Path) -> None:
    """On real problems: the index finds a 10-gram exactly where a set of 10-gram strings finds one."""
    files = [BenchmarkFile(name="math", path=str(repository / "examples/benchmarks/math.jsonl"), text_keys=["problem"])]
    texts = load_benchmarks(files)
    index = Decontaminator(texts[:50], DecontaminationConfig(min_ngram=10))
    plain = {tuple(t.tokens[i : i + 10]) for t in texts[:50] for i in range(len(t.tokens) - 9)}
    hits = 0
    for text in texts:
        expected = any(tuple(text.tokens[i : i + 10]) in plain for i in range(len(text.tokens) - 9))
        assert (index.find(" ".join(text.tokens)) is not None) == expected
        hits += expected
    assert 30 < hits < 80


def test_calculator_annotations_do_not_hide_a_solution(tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    file.write_text(json.dumps({"answer": "She sells 16 - 3 - 4 = <<16-3-4=9>>9 duck eggs a day for a dollar"}) + "\n")
    texts = load_benchmarks([BenchmarkFile(name="g", path=str(file), text_keys=["answer"])])
    check = Decontaminator(texts, DecontaminationConfig())
    assert check.find("She sells 16 - 3 - 4 = 9 duck eggs a day for a dollar") is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [("{broken", "b.jsonl:1: not JSON"), ('{"question": "x"}', "b.jsonl:1: .*expects the key 'answer'")],
)
def test_a_bad_benchmark_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "b.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=message):
        load_benchmarks([BenchmarkFile(name="g", path=str(tmp_path / "b.jsonl"), text_keys=["answer"])])


def test_a_missing_benchmark_is_named() -> None:
    with pytest.raises(UsageError, match="benchmark 'g': no file /nowhere"):
        load_benchmarks([BenchmarkFile(name="g", path="/nowhere/b.jsonl", text_keys=["answer"])])


@pytest.mark.parametrize("name", ["gsm8k", "math", "cmath"])
def test_every_problem_of_the_evaluated_benchmarks_is_found_however_it_is_disguised(
    repository: Path, name: str
) -> None:
    """Each of the demo's problems, planted in a page in five disguises; problems of under three tokens cannot be."""
    described = yaml.safe_load((repository / f"evals/benchmarks/{name}.yaml").read_text())
    question = described["fields"]["question"]
    file = BenchmarkFile(name=name, path=str(repository / f"examples/benchmarks/{name}.jsonl"), text_keys=[question])
    texts = [t for t in load_benchmarks([file]) if len(t.tokens) >= 3]
    check = Decontaminator(texts, DecontaminationConfig())
    wide = str.maketrans({str(d): chr(0xFF10 + d) for d in range(10)})
    lines = Path(file.path).read_text().splitlines()
    for number, problem in list(enumerate(json.loads(line)[question] for line in lines))[:40]:
        page = f"<b>{html.escape(problem[:7])}</b><i>{html.escape(problem[7:9])}</i>{html.escape(problem[9:])}"
        split = html_to_text(f"<html><body><main><p>{'Before it. ' * 20}</p><p>{page}</p></main></body></html>")
        disguises = [problem, problem.upper(), re.sub(r"\s+", " \n  ", problem), problem.translate(wide), split]
        for planted in disguises:
            match = check.find(AROUND.format(planted))
            assert match is not None, (number, planted)
            assert match.benchmark == name
            assert match.ngram in " ".join(for_matching(planted))
