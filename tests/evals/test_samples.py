"""Samples files survive a kill, and figures follow from them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.benchmarks.loader import load
from evals.config import BenchmarkRun
from evals.sampling import SampleFile, missing
from evals.scoring import Intervals, compare, summarize, vote
from stage import UsageError

Lines = Callable[..., list[dict[str, Any]]]
RUN = BenchmarkRun(name="word_problems", limit=10, num_samples=8)


def test_torn_last_line_is_dropped_and_asked_again(tmp_path: Path, lines: Lines) -> None:
    benchmark = load(RUN, 0, lambda _: None)
    path = tmp_path / "samples" / "sft" / "word_problems.jsonl"
    SampleFile(path).append(lines("word_problems", "sft", 3))
    whole = path.read_bytes()
    for cut in (1, 40, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        file = SampleFile(path)
        kept = file.lines()
        assert path.read_bytes() == b"".join(json.dumps(x, ensure_ascii=False).encode() + b"\n" for x in kept)
        left = {(p.id, job.mode) for job in missing(benchmark, RUN, file, few_shot=False) for p in job.problems}
        assert len(left) == 20 - len(kept)
        assert not left & {(s["id"], s["mode"]) for s in kept}


def test_nothing_is_missing_from_a_complete_file_not_even_what_was_skipped(tmp_path: Path, lines: Lines) -> None:
    made = lines("word_problems", "sft", 10)
    made[0] |= {"skipped": "too long", "completions": []}
    file = SampleFile(tmp_path / "a.jsonl")
    file.append(made)
    assert missing(load(RUN, 0, lambda _: None), RUN, file, few_shot=False) == []


def test_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "0"\n{"id": "1"}\n')
    with pytest.raises(UsageError, match=r"a\.jsonl:1: not a sample"):
        SampleFile(path).lines()


def test_summary_is_that_of_the_long_way(lines: Lines) -> None:
    made = lines("word_problems", "sft", 20, 4)
    summary = summarize(made, Intervals(draws=100))
    greedy = [x["completions"][0] for x in made if x["mode"] == "greedy"]
    sampled = [[c["correct"] for c in x["completions"]] for x in made if x["mode"] == "sampled"]
    metrics = summary["metrics"]
    assert metrics["accuracy"]["value"] == pytest.approx(sum(c["correct"] for c in greedy) / 20)
    assert metrics["pass@1"]["value"] == pytest.approx(sum(map(sum, sampled)) / 80)
    assert metrics["maj@1"]["value"] <= metrics["pass@1"]["value"] + 1e-12
    assert metrics["pass@4"]["value"] == pytest.approx(sum(any(s) for s in sampled) / 20)
    assert summary["no_answer"] == sum(c["answer"] is None for c in greedy) / 20
    assert sum(g["problems"] for g in summary["by_level"].values()) == 20
    assert metrics["accuracy"]["interval"][0] <= metrics["accuracy"]["value"] <= metrics["accuracy"]["interval"][1]


def test_skipped_problems_are_counted_and_not_scored_as_wrong(lines: Lines) -> None:
    made = lines("word_problems", "grpo", 10)
    for line in made[:6]:
        line |= {"skipped": "too long", "completions": []}
    summary = summarize(made, Intervals(draws=50))
    assert (summary["problems"], summary["skipped"]) == (7, 3)


def test_equal_answers_vote_alike_however_they_are_written() -> None:
    answers = [("12", True), (r"12\text{ pens}", True), ("13", False), ("13.0", False), (None, False), ("x", False)]
    votes, right = vote([{"answer": a, "correct": c} for a, c in answers])
    assert votes[0] == votes[1]
    assert votes[0] in right
    assert votes[2] == votes[3] != votes[5]
    assert votes[4] is None


def test_comparison_pairs_problems_by_id(lines: Lines) -> None:
    before, after = lines("word_problems", "sft", 30), lines("word_problems", "grpo", 30)
    straight = compare(before, after, Intervals(draws=200))
    shuffled = compare(before, after[::-1], Intervals(draws=200))
    assert straight == shuffled
    assert straight["accuracy"]["problems"] == 30
    assert {"accuracy", "maj@8", "pass@8"} == set(straight)


def test_package_and_settings_load_nothing_heavy() -> None:
    heavy = "{'torch', 'sympy', 'transformers', 'sglang', 'math_verify', 'numpy', 'datasets'}"
    code = f"import sys, evals, evals.config; assert evals.is_correct('1', '1'); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
