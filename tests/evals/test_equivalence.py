"""When two answers are the same: `is_correct`."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.rewrites import BREAK, KEEP
from evals import is_correct
from evals.equivalence import judge_failures, quick_verdict
from evals.extraction import extract_answer
from evals.normal_form import normalize
from evals.quantities import parse_number

KINDS = [
    r"-\frac{7}{4}",
    r"\frac{3}{8}",
    "(3,-1)",
    "[2,5)",
    r"3\sqrt{5}",
    r"\sqrt{7}",
    "2x+3",
    r"\text{even}",
    "(B)",
    "12345",
]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "42"),
        ("42", "42.0"),
        ("1234", "1,234"),
        ("1234", r"1{,}234"),
        ("14916", r"\boxed{14,\!916}"),
        ("18", "$18.00"),
        ("18", r"\$18"),
        ("18", "18 dollars"),
        (r"\$40", r"$\$40$"),
        ("18", "18元"),
        ("12", "答案是12个苹果。"),
        ("42", "４２"),
        (r"\frac{1}{2}", "0.5"),
        (r"\frac{1}{2}", "1/2"),
        (r"\frac12", r"\dfrac{1}{2}"),
        (r"-\frac{3}{4}", r"\frac{-3}{4}"),
        (r"3\frac{1}{2}", "3.5"),
        ("3 1/2", "7/2"),
        ("1/3", "0.333333"),
        ("1000", r"10^3"),
        ("1000", "1e3"),
        (r"5\%", "5"),
        ("50%", "0.5"),
        ("0.5", r"50\%"),
        ("28%", "28 percent"),
        (r"90^\circ", "90"),
        (r"15\text{ cm}^2", "15"),
        ("5", "x = 5"),
        ("x=5", "5"),
        ("(1, 4.5)", r"(1,\frac{9}{2})"),
        ("-2,1", "1, -2"),
        (r"\text{Monday}", "monday"),
        ("C", "(C)"),
        ("C", r"\boxed{\text{(C)}}"),
        ("x+1", "1+x"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"[0,1) \cup (2,3]", r"(2,3]\cup[0,1)"),
        (r"\{1,2\}", r"\{2,1\}"),
        (r"\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix}", r"\begin{pmatrix} 1&2 \\ 3&\frac{8}{2} \end{pmatrix}"),
        ("7", "First \\boxed{5}. That was wrong after a long second look at the whole problem. \\boxed{7}"),
        ("#### 72", "The answer is 72."),
        ("5", "5 cm"),
        ("15", "15 m/s"),
        ("1000000", "100万"),
        ("1450000", "$1.45 million"),
        ("15", "十五"),
        ("1/2", "二分之一"),
        (r"\pi", "π"),
        (r"10\sqrt{3}", "10√3"),
        ("3+4i", r"3+4\mathrm{i}"),
        ("1/3", r"0.\overline{3}"),
        (r"\text{No}", "no"),
        (r"\text{no solution}", r"\emptyset"),
        ("B", r"\textbf{(B) }12"),
        ("[0,1]", r"0 \leq x \leq 1"),
        (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
        ("(1,2),(3,4)", "(3,4),(1,2)"),
        ("1,-2", r"1\text{ or }-2"),
        ("x>3", r"(3,\infty)"),
        ("2516_8", "2516_{8}"),
        ("2516_8", "2516"),
        ("$5$;$10$", "5; 10"),
        ("$5$;$10$", "5，10"),
        ("4t", "4t"),
        ("2^{100}", "4^{50}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
    ],
)
def test_same_answers_are_equal(gold: str, answer: str) -> None:
    assert is_correct(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "43"),
        ("42", "-42"),
        ("42", ""),
        ("42", "   "),
        ("42", "4 2"),
        ("42", "420"),
        ("1234", "1.234"),
        ("0.5", "0.05"),
        ("50", "0.5"),
        ("1/3", "0.33"),
        ("0.0000001", "0"),
        ("1000000", "1000001"),
        (r"\frac{1}{2}", r"\frac{2}{1}"),
        (r"\frac{1}{0}", "0"),
        ("2", "2x"),
        ("x", "2"),
        ("(1,2)", "(2,1)"),
        ("[0,1]", "(0,1)"),
        ("1,2", "1"),
        ("1", "1,2"),
        ("1,2", "1,2,3"),
        ("C", "B"),
        ("C", "A B C D E"),
        (r"\text{Monday}", "Tuesday"),
        ("x=5", "y=6"),
        ("42", "I think it is 41 or 42 or 43. \\boxed{41}"),
        ("42", "\\boxed{42} ... no. On reflection after more careful thought about it all: \\boxed{40}"),
        ("3", "1, 2, 3, 4, 5"),
        (r"\sqrt{2}", "1.41"),
        ("x+1", "x-1"),
        ("15", "6+9h"),  # Math-Verify takes the h for hours
        ("6", r"\begin{pmatrix}6\\1\end{pmatrix}"),
        ("7", r"\text{seven or so}"),
        ("5 m", "5 cm"),
        ("5米", "5厘米"),
        ("$5", "5 cents"),
        ("15", "15万"),
        ("15", r"15\text{ million}"),
        ("15", "15 thousand"),
        ("5", "–5"),  # an en dash
        ("5", r"5\mathrm{i}"),
        ("-4", r"1-5\mathrm{i}"),
        ("4t", "4"),  # a variable, not tons
        ("3s^2", "3"),
        ("3", "3s^2"),
        ("0", "I(0)"),
        ("11", r"33\frac{1}{3}"),
        ("2", "2π"),
        ("12", r"1\,2"),
        ("12", "1\n2"),
        ("2516_8", "2516_7"),
        ("10", "10_2"),
        ("2^{60}", "2^{60}-1"),
        ("x^{50}", "x^{50}+1"),
        ("$5$;$10$", "10"),
        ("$5$;$10$", "10;5"),
        ("5", r"\ge 5"),
        ("5", r"\neq 5"),
        ("5", "at least 5"),
        ("5", "5 hours 30 minutes"),
        ("5", r"5\text{ or }6"),
        ("5", r"\boxed{6} \boxed{5}"),
        ("1", r"0 \leq x \leq 1"),
        ("3", "3'"),
        ("B", "(A) B"),
        ("B", "A or B"),
        ("[0,1]", "0 < x < 1"),
        ("2x-1", r"\begin{pmatrix}2x-1\end{pmatrix}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}"),
    ],
)
def test_different_answers_are_not(gold: str, answer: str) -> None:
    assert not is_correct(gold, answer)


@pytest.mark.parametrize(
    "both",
    [
        "A or B", "A, B", "A; B", "A/B", "A and B", r"A\text{ or }B", r"A\quad B", r"A\vee B", "A|B", r"\{A,B\}",
        r"A\pm B", r"A\cup B", r"A\approx B", "A = B", r"x=A\text{ or }x=B", r"A\le x\le B", "A或B", "A、B", r"A\to B",
        r"A\text{ (or }B)", r"\begin{cases}A\\B\end{cases}", r"A\boxed{B}", r"A\text{ hours }B\text{ minutes}",
        "[A,B]", r"A\neq B",
    ],
)  # fmt: skip
def test_an_answer_is_never_right_for_two_gold_answers(both: str) -> None:
    """What RL would find first: to name several candidates."""
    for a, b in (("5", "6"), (r"\frac{1}{2}", "3"), (r"\sqrt{2}", r"\pi")):
        answer = rf"\boxed{{{both.replace('A', a).replace('B', b)}}}"
        assert not (is_correct(a, answer) and is_correct(b, answer)), answer


def test_nothing_is_not_an_answer() -> None:
    assert not is_correct("42", None)
    assert not is_correct("", "")


def test_numbers_are_decided_without_the_judge() -> None:
    for gold, answer in (("18", "#### 18"), ("18", "17"), ("1/2", "0.5"), ("(1,2)", "(1,3)"), ("A", "B")):
        assert quick_verdict(gold, answer) is not None


@pytest.mark.parametrize(
    "bomb", [r"9^{9^{9^{9^{9}}}}", r"(10^{10^{10}})!", r"\sqrt{" * 400 + "2" + "}" * 400, "(" * 3000, "1" * 100_000]
)
def test_bombs_cost_seconds_and_count_as_wrong(bomb: str) -> None:
    began = time.monotonic()
    assert not is_correct("7", rf"\boxed{{{bomb}}}")
    assert time.monotonic() - began < 30.0  # the limit, and the start of a new judge
    assert is_correct("x+1", "1+x")  # the judge lives, or lives again


@pytest.mark.parametrize(
    "text",
    ["\\\\" * 500_000, r"\boxed{" * 150_000, "1 " * 500_000, r"\text{" * 200_000, "(\\n" * 300_000, "1," * 500_000],
)
def test_a_million_characters_take_no_time(text: str) -> None:
    began = time.process_time()
    quick_verdict("7", text)
    quick_verdict("7", rf"\boxed{{{text}}}")
    assert time.process_time() - began < 10.0  # quadratic time would be hours


def test_a_killed_check_loses_no_other() -> None:
    pairs = [("x+1", "1+x"), (r"\sin x", r"\sin{x}"), ("13", r"\boxed{(9^{9^{9^9}})!}"), (r"\cos x", r"\cos{x}")]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda p: is_correct(*p), pairs)) == [True, True, False, True]


def test_a_check_without_a_verdict_is_counted() -> None:
    before = sum(judge_failures().values())
    assert not is_correct("11", r"\boxed{9^{9^{9^{9^{8}}}}}")
    assert sum(judge_failures().values()) == before + 1


def test_nothing_of_an_answer_is_executed(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for text in (
        f"__import__('pathlib').Path('{trap}').touch()",
        rf"\boxed{{open('{trap}','w')}}",
        f"$open('{trap}','w')$",
    ):
        assert not is_correct("1", text)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"$ \left( 1,\ 2 \right) $", "(1,2)"),
        (r"\[ 5 \]", "5"),
        (r"\text{ Evelyn }", "evelyn"),
        ("$1$ and $2$", "$1$and$2$"),
    ],
)
def test_normal_form(text: str, plain: str) -> None:
    assert normalize(text) == plain


@pytest.mark.parametrize("text", ["", "x", "1/0", ".", "-", "1,23", "--1", "1.2.3", "١", "9" * 5000])
def test_what_is_no_number_is_not_parsed_as_one(text: str) -> None:
    assert parse_number(text) is None


def test_accuracy_on_math_verifys_own_cases(shared_data: Path) -> None:
    cases = [json.loads(line) for line in (shared_data / "answers" / "equivalence.jsonl").read_text().splitlines()]
    right = [is_correct(c["gold"], c["answer"]) == c["equal"] for c in cases]
    assert sum(right) / len(right) >= 0.99  # Math-Verify 0.9.0 itself: 142 of 145


@pytest.mark.parametrize("name", [*KEEP, *BREAK])
def test_rewritten_answers(repository: Path, name: str) -> None:
    """100 of MATH's gold answers and some of each kind, rewritten by a rule that keeps or breaks equality."""
    path = repository / "examples" / "benchmarks" / "math.jsonl"
    golds = [str(extract_answer(json.loads(line)["solution"], ("boxed",))) for line in path.read_text().splitlines()]
    golds += KINDS
    rule = KEEP.get(name) or BREAK[name]
    pairs = [(gold, answer) for gold in golds if (answer := rule(gold)) is not None]
    assert pairs
    assert [p for p in pairs if is_correct(*p) != (name in KEEP)] == []


def test_quick_verdict_never_rejects_a_gold_solution_and_never_accepts_a_neighbours(shared_data: Path) -> None:
    """All of MATH: each gold answer against its own solution, and against the next problem's answer."""
    solutions = [
        json.loads(line)["solution"] for line in (shared_data / "math" / "test.jsonl").read_text().splitlines()
    ]
    golds = [str(extract_answer(s, ("boxed",))) for s in solutions]
    assert not any(quick_verdict(g, s) is False for g, s in zip(golds, solutions, strict=True))
    accepted = {(a, b) for a, b in pairwise(golds) if quick_verdict(a, b) and a != b}
    assert accepted == {(r"\frac{3}{4}", r"\frac34"), (r"120^\circ", "120"), (r"7\%", "7")}
