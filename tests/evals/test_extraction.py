"""Where the final answer of a text is found."""

import json
from pathlib import Path

import pytest

from evals.extraction import MARKS, Method, extract_answer, full_width_to_ascii


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"first \boxed{1}, no: \boxed{\sqrt{\frac{3}{4}}}", r"\sqrt{\frac{3}{4}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),  # escaped braces are not braces
        (r"\boxed{7} and then \boxed{8", "7"),  # cut off in the middle
        (r"\boxed 5$", "5"),
        (r"\fbox{x+1}", "x+1"),
        ("He has 3 * 4 = <<3*4=12>>12.\n#### 12", "12"),
        ("#### 1,234\n", "1,234"),
        ("#### 5\nNo, that is wrong.\n#### 6", "6"),
        ("The answer is 42.", "42"),
        ("The answer is 3.5.", "3.5"),
        ("The answer is: $\\frac{1}{2}$. I hope it is correct.", r"$\frac{1}{2}$"),
        ("The final answer is \\boxed{7}.", "7"),
        ("Final Answer: The final answer is $(1, 2)$. I hope it is correct.", "$(1, 2)$"),
        ("the answer is (C).", "(C)"),
        ("The answer is B", "B"),
        ("答案是42。", "42"),
        ("所以答案为：18个。", "18个"),
        ("答：一共有12个。\n答案：12", "12"),
        ("最终答案是\\boxed{4.5}。", "4.5"),
        (r"\boxed{3}. The answer is 4.", "4"),  # the last mark wins
        (r"The answer is 3. Let me check: \boxed{4}", "4"),
        (r"\boxed{3}. I am sure that the answer is correct.", "3"),
        ("#### **18**", "18"),
    ],
)
def test_last_marked_answer_is_found(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "text", ["", "no idea", "12 apples", r"\boxed{", r"\boxed{}", "####", "####   \n", "The answer is"]
)
def test_text_without_a_marked_answer_has_none(text: str) -> None:
    assert extract_answer(text) is None


@pytest.mark.parametrize(
    ("text", "methods", "answer"),
    [
        ("so 3 + 4 = 7 apples", ("number",), "7"),
        ("it costs $1,234.50 in all", ("number",), "$1,234.50"),
        ("<<3*4=12>> apples, no more", ("number",), None),  # a calculator note is no statement
        ("一共４２个", ("number",), "42"),
        (r"\boxed{5} of 6", ("boxed", "number"), "5"),  # a mark goes before the last number
        (r"\boxed{5}", ("hash",), None),
        (" 18. ", ("plain",), "18"),
        ("x2 is a name", ("number",), None),
        ("```output\n5\n```\nThe first 15 minutes.", ("boxed", "output", "number"), "5"),
        ("```output\n1\n```\n```output\na line\n3.0\n```", ("output",), "3.0"),
        ("no program", ("output",), None),
        ("(A) is too small, so B.", ("choice",), "B"),
        ("3", ("index",), "D"),
    ],
)
def test_only_the_named_methods_are_used(text: str, methods: tuple[Method, ...], answer: str | None) -> None:
    assert extract_answer(text, methods) == answer


def test_full_width_text_becomes_ascii_and_chinese_stays() -> None:
    assert full_width_to_ascii("共４２％（约）：ｘ") == "共42%(约):x"


def test_endless_opening_marks_take_no_time() -> None:
    assert extract_answer(r"\boxed{" * 2000, MARKS) is None
    assert extract_answer("the answer is " * 5000) is None


@pytest.mark.parametrize(
    ("file", "field", "method"), [("gsm8k/test.jsonl", "answer", "hash"), ("math/test.jsonl", "solution", "boxed")]
)
def test_every_gold_answer_of_gsm8k_and_math_is_found(shared_data: Path, file: str, field: str, method: Method) -> None:
    records = [json.loads(line) for line in (shared_data / file).read_text().splitlines()]
    assert [r for r in records if extract_answer(r[field], (method,)) is None] == []
