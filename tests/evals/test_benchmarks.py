"""Benchmarks as data: what the YAMLs say, what they make of records, and that gold answers judge themselves right."""

import json
import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from evals.benchmarks.loader import load, read_spec
from evals.config import BENCHMARKS, BenchmarkRun, EvalsConfig
from evals.prompts import chat_prompt, cut_at_stop
from stage import UsageError

SHIPPED = ("gsm8k", "math", "cmath")


def no_drop(reason: str) -> None:
    raise AssertionError(f"dropped: {reason}")


def first(names: str | tuple[str, ...]) -> str:
    return names if isinstance(names, str) else names[0]


def write(path: Path, records: list[object]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return str(path)


@pytest.mark.parametrize("name", SHIPPED)
def test_gold_solutions_of_the_shipped_samples_are_judged_right(repository: Path, name: str) -> None:
    path = repository / "examples" / "benchmarks" / f"{name}.jsonl"
    benchmark = load(BenchmarkRun(name=name, path=str(path)), 0, no_drop)
    assert len(benchmark.problems) == 100
    for problem in benchmark.problems:
        for text in (rf"So it is \boxed{{{problem.gold}}}.", f"The answer is ${problem.gold}$."):
            assert benchmark.judge(problem.gold, text)[1], (problem, text)


@pytest.mark.parametrize(
    ("name", "file", "problems"),
    [
        ("gsm8k", "gsm8k/test.jsonl", 1319),
        ("math", "math/test.jsonl", 5000),
        ("cmath", "benchmarks/cmath-test.jsonl", 1098),
        ("mgsm_zh", "benchmarks/mgsm_zh-mgsm_zh.jsonl", 250),
        ("gaokao_mathcloze", "benchmarks/agieval-gaokao-mathcloze.jsonl", 118),
        ("gaokao_mathqa", "benchmarks/agieval-gaokao-mathqa.jsonl", 351),
        ("sat", "benchmarks/sat-test.jsonl", 32),
        ("ocw", "benchmarks/ocw-test.jsonl", 272),
        ("mmlu_stem", "benchmarks/mmlu_stem-test.jsonl", 3018),
    ],
)
def test_every_published_gold_solution_is_judged_right(shared_data: Path, name: str, file: str, problems: int) -> None:
    run = BenchmarkRun(name=name, path=str(shared_data / file))
    benchmark = load(run, 0, no_drop)
    assert len(benchmark.problems) == problems
    wrong = [p for p in benchmark.problems if not benchmark.judge(p.gold, rf"\boxed{{{p.gold}}}")[1]]
    assert wrong == []


def test_word_problems_come_from_the_test_split_in_both_languages() -> None:
    from evals.benchmarks.word_problems import generate

    benchmark = load(BenchmarkRun(name="word_problems", limit=50), 7, no_drop)
    assert [p.question for p in benchmark.problems] == [p.question for p in generate("test", 50, 7)]
    assert {p.subject for p in benchmark.problems} == {"en", "zh"}
    for problem, made in zip(benchmark.problems, generate("test", 50, 7), strict=True):
        assert benchmark.judge(problem.gold, made.solution) == (problem.gold, True)
    assert benchmark.judge("12", "The answer is 12.") == (None, False)  # the format is part of the task


@pytest.mark.parametrize("name", sorted(p.stem for p in BENCHMARKS.glob("*.yaml")))
def test_every_benchmark_file_is_valid_and_its_examples_judge_themselves_right(name: str, tmp_path: Path) -> None:
    fields, metric = read_spec(BENCHMARKS / f"{name}.yaml").fields, read_spec(BENCHMARKS / f"{name}.yaml").metric
    gold = {"choice": "B"}.get(metric, r"\boxed{2}" if name == "math" else "2")
    record: dict[str, object] = {first(fields.question): "What is 1 + 1?", first(fields.answer): gold}
    if fields.options:
        record[first(fields.options)] = ["1", "2"]
    benchmark = load(BenchmarkRun(name=name, path=write(tmp_path / "one.jsonl", [record])), 0, no_drop)
    assert benchmark.judge(benchmark.problems[0].gold, "The answer is $" + benchmark.problems[0].gold + "$.")[1] or (
        name == "word_problems"  # the format is part of the task
    )
    for _, solution in benchmark.shots.examples if benchmark.shots else ():
        answer, _ = benchmark.judge("0", solution)
        assert answer is not None
        assert benchmark.judge(answer, solution)[1]


def test_base_models_see_worked_examples_and_tuned_ones_the_chat_form(tmp_path: Path) -> None:
    path = write(tmp_path / "one.jsonl", [{"question": "What is {1} + 1?", "answer": "#### 2"}])
    benchmark = load(BenchmarkRun(name="gsm8k", path=path), 0, no_drop)
    (problem,) = benchmark.problems
    few = benchmark.prompt(problem, few_shot=True)
    assert few.text.count("Question: ") == 9
    assert few.text.endswith("Question: What is {1} + 1?\nAnswer:")
    assert cut_at_stop("It is 2. The answer is 2.\n\nQuestion: What", few.stop) == "It is 2. The answer is 2.\n"
    chat = benchmark.prompt(problem, few_shot=False)
    instruction = r"Please reason step by step, and put your final answer within \boxed{}."
    assert chat.text == f"User: What is {{1}} + 1?\n{instruction}\n\nAssistant: "
    assert cut_at_stop("It is 2.\n\nUser: and", chat.stop) == "It is 2.\n"


def test_chat_prompt_without_instruction_has_no_empty_line() -> None:
    assert chat_prompt("1 + 1?") == "User: 1 + 1?\n\nAssistant: "


def test_unusable_records_are_left_out_and_counted(tmp_path: Path) -> None:
    records: list[object] = [
        {"question": "a", "answer": "#### 1"},
        {"question": "b"},
        {"question": "", "answer": "#### 1"},
        {"question": "c", "answer": "####"},
        {"question": "d", "answer": 5},
    ]
    dropped: list[str] = []
    benchmark = load(BenchmarkRun(name="gsm8k", path=write(tmp_path / "x.jsonl", records)), 0, dropped.append)
    assert [(p.question, p.gold) for p in benchmark.problems] == [("a", "1"), ("d", "5")]
    assert dropped == [
        "gsm8k: no field 'answer'",
        "gsm8k: no field 'question'",
        "gsm8k: no gold answer in field 'answer'",
    ]


def test_fields_have_several_names_and_reach_inside(tmp_path: Path) -> None:
    records: list[object] = [
        {"messages": [{"content": "a"}], "answer": 5},  # the form of DeepSeekMath's own evaluation
        {"question": "b", "answer_number": 6},  # the hub's
        {"messages": [], "answer": 5},
    ]
    dropped: list[str] = []
    benchmark = load(BenchmarkRun(name="mgsm_zh", path=write(tmp_path / "x.jsonl", records)), 0, dropped.append)
    assert [(p.question, p.gold) for p in benchmark.problems] == [("a", "5"), ("b", "6")]
    assert dropped == ["mgsm_zh: no field 'question' or 'messages.0.content'"]


def test_multiple_choice_writes_its_options_and_is_judged_by_letters(tmp_path: Path) -> None:
    records: list[object] = [
        {"question": "1 + 1?", "choices": ["1", "2"], "answer": 1, "subject": "sums"},  # the hub counts from 0
        {"question": "2 + 2?", "options": ["(A) 3", "(B) 4"], "answer": "B"},
        {"question": "3?", "answer": "B"},
    ]
    dropped: list[str] = []
    benchmark = load(BenchmarkRun(name="mmlu_stem", path=write(tmp_path / "x.jsonl", records)), 0, dropped.append)
    ask = "\nWhat of the following is the right choice? Explain your answer.\n"
    assert [p.question for p in benchmark.problems] == [f"1 + 1?{ask}(A) 1, (B) 2", f"2 + 2?{ask}(A) 3, (B) 4"]
    assert [p.gold for p in benchmark.problems] == ["B", "B"]
    assert dropped == ["mmlu_stem: no field 'options' or 'choices'"]
    for text in (r"\boxed{B}", "The answer is (B) 2.", r"$\boxed{\text{B}}$", "(A) is too small, so B."):
        assert benchmark.judge("B", text)[1], text
    for text in (r"\boxed{A}", r"\boxed{2}", "The answer is A, not B.", "no idea", r"\boxed{A, B}"):
        assert not benchmark.judge("B", text)[1], text


def test_math_record_without_a_boxed_answer_is_not_scored(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl", [{"problem": "a", "solution": "none"}, {"problem": "b", "solution": r"\boxed{1}"}]
    )
    dropped: list[str] = []
    assert len(load(BenchmarkRun(name="math", path=path), 0, dropped.append).problems) == 1
    assert dropped == ["math: no gold answer in field 'solution'"]


@pytest.mark.parametrize(
    ("broken", "what"), [('{"question": ', "not JSON"), ("[1, 2]", "expected an object, got list")]
)
def test_broken_line_is_named(tmp_path: Path, broken: str, what: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"question": "a", "answer": "1"}}\n{broken}\n')
    with pytest.raises(UsageError, match=rf"x\.jsonl:2: {what}"):
        load(BenchmarkRun(name="gsm8k", path=str(path)), 0, no_drop)


def test_benchmark_of_ones_own_takes_a_yaml_and_no_code(tmp_path: Path) -> None:
    write(tmp_path / "mine.jsonl", [{"q": "Which?", "a": "B", "topic": "letters"}])
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(
        "title: Mine\ndata: {path: mine.jsonl}\nfields: {question: q, answer: a, subject: topic}\n"
        "extraction: [phrase]\nmetric: exact\n"
    )
    benchmark = load(BenchmarkRun(name=str(yaml)), 0, no_drop)
    assert benchmark.name == "mine"
    assert benchmark.problems[0].subject == "letters"
    assert benchmark.judge("B", "The answer is (B).") == ("(B)", True)


@pytest.mark.parametrize(
    ("yaml", "key"),
    [
        ("title: X\ndata: {path: a.jsonl}\nextraction: [boxd]\n", "extraction.0"),
        ("title: X\ndata: {path: a.jsonl, dataset: b}\nextraction: [boxed]\n", "exactly one of"),
        ("title: X\ndata: {path: a.jsonl}\nextraction: [boxed]\nshots: 3\n", "shots"),
    ],
)
def test_mistake_in_a_yaml_is_one_line_naming_the_key(tmp_path: Path, yaml: str, key: str) -> None:
    (tmp_path / "bad.yaml").write_text(yaml)
    with pytest.raises(UsageError, match=key) as error:
        read_spec(tmp_path / "bad.yaml")
    assert "\n" not in str(error.value)


def test_unknown_benchmark_lists_the_known_ones() -> None:
    with pytest.raises(
        ValidationError, match="unknown benchmark 'gsm'; use one of cmath, gaokao_mathcloze, gaokao_mathqa, gsm8k"
    ):
        BenchmarkRun(name="gsm")


def test_settings_refuse_a_benchmark_named_twice() -> None:
    with pytest.raises(ValidationError, match="names something twice"):
        EvalsConfig(benchmarks=[BenchmarkRun(name="math"), BenchmarkRun(name="math", limit=3)])


def test_worked_examples_are_no_test_questions(repository: Path, shared_data: Path) -> None:
    """No example shares as much as a third of its runs of six words (or Chinese characters) with a test question."""
    examples = {
        example["question"]: _runs(example["question"])
        for path in (repository / "evals" / "benchmarks" / "few_shot").glob("*.yaml")
        for example in yaml.safe_load(path.read_text())["examples"]
    }
    assert len(examples) == 8 + 4 + 6 + 5 + 5 + 4
    files = [*(shared_data / "benchmarks").glob("*.jsonl"), shared_data / "math" / "test.jsonl"]
    lines = {line for file in files for line in file.read_text().splitlines()}
    for line in lines:
        runs = _runs(line)
        copied = [q for q, own in examples.items() if len(own & runs) > len(own) / 3]
        assert not copied, line


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower())
    return {tuple(words[i : i + 6]) for i in range(len(words) - 5)}
