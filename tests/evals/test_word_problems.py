"""The demo's task: solvable, disjoint, reproducible."""

import re

import pytest

from evals.benchmarks.word_problems import LARGEST, generate

OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def test_solutions_are_right_step_by_step() -> None:
    for p in generate("train", 500, seed=3):
        *lines, last = p.solution.splitlines()
        for line in lines:
            a, op, b, c = re.fullmatch(r"(\d+)([-+*])(\d+)=(\d+)", line).groups()
            assert OPERATIONS[op](int(a), int(b)) == int(c) <= LARGEST
        assert last == f"#### {p.answer}" and lines[-1].endswith(f"={p.answer}")
        assert len(lines) == p.steps in (2, 3)


def test_train_and_test_share_no_chain_of_arithmetic() -> None:
    train = {p.chain for p in generate("train", 5000, seed=0)}
    test = {p.chain for p in generate("test", 500, seed=0)}
    assert not train & test


def test_both_languages_and_all_operations_appear() -> None:
    problems = generate("test", 300, seed=1)
    assert {p.language for p in problems} == {"en", "zh"}
    assert all(any(op in p.chain for p in problems) for op in "+-*")


def test_the_seed_decides_everything() -> None:
    assert generate("train", 50, seed=4) == generate("train", 50, seed=4) != generate("train", 50, seed=5)
    with pytest.raises(ValueError, match="split"):
        generate("dev", 1, seed=0)  # type: ignore[arg-type]
