"""`python -m evals.run` without a model: the list, scoring anyone's outputs, judging kept samples again."""

import json
from pathlib import Path

import pytest

from evals.run import main

RIGHT, WRONG = r"So it is \boxed{18}.", r"So it is \boxed{19}."


def write(path: Path, records: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_list_names_every_benchmark_with_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "title", "language", "data", "few-shot", "answer", "metric"]
    assert any(line.startswith("gsm8k ") and "openai/gsm8k" in line and " 8 " in line for line in lines)


def test_outputs_of_others_are_scored_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records: list[dict[str, object]] = [
        {"gold": "18", "output": RIGHT, "verdict": True},
        {"gold": "#### 18", "output": WRONG, "verdict": True},
        {"gold": "18", "verdict": True},
        {"gold": "####", "output": RIGHT, "verdict": True},
    ]
    file, out = write(tmp_path / "theirs.jsonl", records), tmp_path / "out"
    command = ["--samples", str(file), "--benchmark", "gsm8k", "--recorded-key", "verdict", "--output", str(out)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "left out, not scored: 1, no field 'trajectory' or 'text' or 'output'" in said
    assert "left out, not scored: 1, no gold answer in field 'gold'" in said
    assert "1: gold '18', recorded True, here '19'" in said
    assert "verdicts like the recorded ones: 1 of 2; 1 differ" in said
    assert "gsm8k, theirs: accuracy 50.0" in said
    kept = [json.loads(line) for line in (out / "samples/theirs/gsm8k.jsonl").read_text().splitlines()]
    assert [s["completions"][0]["correct"] for s in kept] == [True, False]
    assert json.loads((out / "report.json").read_text())["results"]["gsm8k"]["theirs"]["problems"] == 2


def test_kept_samples_are_judged_again_without_touching_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong_verdict = {"text": RIGHT, "answer": None, "correct": False, "finish_reason": "stop", "tokens": 5}
    right_verdict = {"text": WRONG, "answer": "19", "correct": False, "finish_reason": "stop", "tokens": 5}
    line = {"level": None, "subject": None, "question": "q", "gold": "18", "prompt_tokens": 3, "skipped": None}
    lines: list[dict[str, object]] = [
        {**line, "id": "0", "mode": "greedy", "completions": [wrong_verdict]},
        {**line, "id": "0", "mode": "sampled", "completions": [wrong_verdict, right_verdict]},
    ]
    file = write(tmp_path / "evals/samples/sft/gsm8k.jsonl", lines)
    before = file.read_text()
    assert main(["--rescore", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "3 completions judged again, 2 verdicts changed\n  2 gsm8k, sft: now right" in said
    assert "gsm8k, sft: accuracy 100.0" in said and "pass@2 100.0" in said and "pass@1 50.0" in said
    assert file.read_text() == before
    again = (tmp_path / "rescored/samples/sft/gsm8k.jsonl").read_text()
    assert json.loads(again.splitlines()[0])["completions"][0]["correct"] is True
    assert (tmp_path / "rescored/report.html").is_file()


def test_records_of_one_problem_are_its_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records: list[dict[str, object]] = [
        {"id": 7, "gold": "18", "output": RIGHT, "verdict": True},
        {"id": 7, "gold": "18", "output": WRONG, "verdict": None},
        {"id": 7, "gold": "19", "output": [WRONG, WRONG], "verdict": True},
    ]
    file = write(tmp_path / "theirs.jsonl", records)
    assert main(["--samples", str(file), "--benchmark", "gsm8k", "--recorded-key", "verdict"]) == 0
    said = capsys.readouterr().out
    assert "pass@1 75.0" in said and "pass@2 100.0" in said and "accuracy" not in said
    assert "verdicts like the recorded ones: 3 of 3; 0 differ; 1 have none" in said


def test_rescoring_leaves_out_a_torn_line_and_takes_the_rules_of_an_own_benchmark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    own = tmp_path / "exam.yaml"
    own.write_text((repository / "evals/benchmarks/gsm8k.yaml").read_text().replace("few_shot", "# few_shot"))
    completion = {"text": RIGHT, "answer": "18", "correct": True, "finish_reason": "stop", "tokens": 5}
    line = {"level": None, "subject": None, "question": "q", "gold": "18", "prompt_tokens": 3, "skipped": None}
    line |= {"id": "0", "mode": "greedy", "completions": [completion]}
    for stage in ("grpo", "sft"):
        file = write(tmp_path / f"samples/{stage}/exam.jsonl", [line])
        file.write_text(file.read_text() + '{"id": "1", "mode"')
    assert main(["--rescore", str(tmp_path)]) == 2
    assert "unknown benchmark 'exam'" in capsys.readouterr().err
    assert main(["--rescore", str(tmp_path), "--benchmark", str(own)]) == 0
    said = capsys.readouterr().out
    assert f"left out, not scored: 1, half-written last line of {file}" in said
    assert "2 completions judged again, 0 verdicts changed" in said
    report = json.loads((tmp_path / "rescored/report.json").read_text())
    assert [(c["before"], c["after"]) for c in report["comparisons"]] == [("sft", "grpo")]  # the recipe's order


@pytest.mark.parametrize(
    ("mode", "text", "answer", "right"),
    [
        ("pot", "```python\nprint(18)\n```\n```output\n18\n```\n", "18", True),
        ("pot", "```python\n1/0\n```\n```output\nZeroDivisionError: 18\n```\n", None, False),
        ("tool", "```python\nprint(3)\n```\n```output\n3\n```\nIt is \\boxed{18}.", "18", True),
        ("tool", "```python\nprint(18)\n```\n```output\n18\n```\n", "18", True),
    ],
)
def test_answers_of_programs_are_judged_again_as_at_first(
    mode: str, text: str, answer: str | None, right: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    completion: dict[str, object] = {"text": text, "answer": answer, "correct": right, "finish_reason": "stop"}
    completion |= {"tokens": 5, "rounds": 1, "executions": [{"status": "ok" if answer else "error", "seconds": 0.1}]}
    line = {"level": None, "subject": None, "question": "q", "gold": "18", "prompt_tokens": 3, "skipped": None}
    write(
        tmp_path / f"samples/sft/gsm8k-{mode}.jsonl",
        [line | {"id": "0", "mode": "greedy", "completions": [completion]}],
    )
    assert main(["--rescore", str(tmp_path)]) == 0
    assert "1 completions judged again, 0 verdicts changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["--samples", "none.jsonl", "--benchmark", "gsm8k"], "none.jsonl: cannot be read"),
        (["--samples", "none.jsonl"], "--samples needs one --benchmark"),
        (["--samples", "none.jsonl", "--benchmark", "gsm"], "unknown benchmark 'gsm'"),
        (["--rescore", "nowhere"], "nowhere: no samples/<checkpoint>/<benchmark>.jsonl"),
    ],
)
def test_a_mistake_is_one_line(command: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1


def test_toras_published_outputs_score_as_published(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--text-key", "trajectory", "--gold-key", "gold", "--recorded-key", "prediction"]
    assert main(["--samples", str(shared_data / "tora/gsm8k-70b.jsonl"), "--benchmark", "gsm8k", *keys]) == 0
    said = capsys.readouterr().out
    assert "verdicts like the recorded ones: 1319 of 1319; 0 differ" in said
    assert "accuracy 84.3" in said  # ToRA's paper (arXiv 2309.17452), table 2
