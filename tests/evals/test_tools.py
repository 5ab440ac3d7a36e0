"""The tool loop: who writes what, in which order, what counts as the answer; and published solutions run again."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals import is_correct
from evals.benchmarks.loader import load
from evals.config import BenchmarkRun, EvalsConfig, SandboxConfig
from evals.extraction import extract_answer
from evals.replay import SAME, SAME_VALUE, main, replay
from evals.sampling import SampleFile, missing
from evals.sandbox import Execution, Limits, RemoteSandbox, Sandbox
from evals.tool_mode import count_executions, judged, make_sandbox
from evals.tools import SHOWN, Generated, Trajectory, programs, run_program, session, shown, solve, tool_answer

Writer = Callable[[list[str]], list[Generated]]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(seconds=60, cpu_seconds=60), workers=1) as running:  # a busy machine is no failure
        yield running


def writer(script: dict[str, list[str]], calls: list[list[str]] | None = None) -> Writer:
    """Continues a prompt by what the script has next for it; keeps what it was asked."""

    def generate(texts: list[str]) -> list[Generated]:
        if calls is not None:
            calls.append(texts)
        prompts = [next(p for p in script if t.startswith(p)) for t in texts]
        return [Generated(w, len(w), "stop") for w in (script[p].pop(0) for p in prompts)]

    return generate


def block(code: str) -> str:
    return f"```python\n{code}\n```"


def test_program_is_run_where_the_model_stops_and_the_model_reads_its_output(sandbox: Sandbox) -> None:
    calls: list[list[str]] = []
    script = {"Q1": [f"Compute.\n{block('print(6 * 7)')}\n", r"It is $\boxed{42}$."], "Q2": ["No tools: #### 7"]}
    one, two = solve(["Q1:\n", "Q2:\n"], writer(script, calls), sandbox.run_many, max_rounds=4)
    told = f"Compute.\n{block('print(6 * 7)')}\n```output\n42\n```\n"
    assert calls == [["Q1:\n", "Q2:\n"], [f"Q1:\n{told}"]]  # all that are open at once, finished ones no more
    assert one.text == told + r"It is $\boxed{42}$."
    assert (one.rounds, two.rounds) == (2, 1)
    assert [e.status for e in one.executions] == ["ok"]
    assert one.tokens == len(one.text) - len("```output\n42\n```\n")  # the outputs are not the model's
    assert tool_answer(one, ("boxed",)) == "42"
    assert (two.text, two.executions, tool_answer(two, ("hash",))) == ("No tools: #### 7", [], "7")


def test_error_is_shown_and_may_be_mended(sandbox: Sandbox) -> None:
    script = {"Q": [block("print(x)"), f"Define x first.\n{block('x = 3')}", block("print(x + 1)"), "The answer is 4."]}
    (done,) = solve(["Q"], writer(script), sandbox.run_many, max_rounds=4)
    assert "```output\nNameError: name 'x' is not defined\n```" in done.text
    assert [e.status for e in done.executions] == ["error", "ok", "ok"]
    assert done.executions[2].stdout == "4\n"  # it sees the x of the program before it
    assert tool_answer(done, ("boxed", "phrase")) == "4"


def test_rounds_are_limited_and_the_last_output_stands_in_for_an_answer(sandbox: Sandbox) -> None:
    script = {"Q": [block(f"print({i})") for i in range(9)]}
    (done,) = solve(["Q"], writer(script), sandbox.run_many, max_rounds=3)
    assert (done.rounds, len(done.executions), done.finish_reason) == (3, 3, "length")
    assert done.text.endswith("```output\n2\n```\n")
    assert tool_answer(done, ("boxed", "number")) == "2"


def test_earlier_programs_run_again_without_a_word(sandbox: Sandbox) -> None:
    blocks = ["import math\nx = 5\nprint('noise')", "y = 1 / 0", "def f():\n    return math.factorial(x)", "f()"]
    assert sandbox.run(session(blocks)).stdout == "120\n"
    assert session(blocks[:1]) == blocks[0]
    assert session([]) == ""


def test_only_closed_blocks_are_programs() -> None:
    text = f"{block('a = 1')}\n```output\n1\n```\ntext ``` inline\n{block('b = 2')}\n```python\nnever closed"
    assert programs(text) == ["a = 1\n", "b = 2\n"]


@pytest.mark.parametrize("ending", ["```python\nprint(1)", "print(1)\n```", f"{block('1')}\n```output\n7\n```", "$x$"])
def test_nothing_is_run_for_a_text_that_ends_otherwise(ending: str) -> None:
    (done,) = solve(["Q"], writer({"Q": [ending]}), lambda codes: pytest.fail("ran") if codes else [], max_rounds=2)
    assert (done.text, done.rounds) == (ending, 1)


def test_long_output_is_cut_in_the_middle() -> None:
    text = shown(Execution("1" * 500 + "\n", "ValueError: wrong", "error", 0.1))
    assert len(text) == SHOWN + 3
    assert text.startswith("1" * 50 + "...")
    assert text.endswith("ValueError: wrong")
    assert shown(Execution(" 3 \n", None, "ok", 0.1)) == "3"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"{block('#### 9')}\n```output\n1\n```\nSo #### 8", "8"),
        (rf"{block('x')}" + "\n```output\n\\boxed{5}\n```\nIt is 6.", "17"),  # marks in outputs are no answers
        ("The answer is 3.\n" + block("print(17)") + "\n```output\n17\n```\n", "3"),
        (block("print(17)") + "\n```output\n17\n```\nHence.", "17"),
    ],
)
def test_answer_is_in_the_prose_or_else_what_the_last_program_printed(text: str, answer: str) -> None:
    done = Trajectory("Q", text, executions=[Execution("17\n", None, "ok", 0.1)])
    assert tool_answer(done, ("boxed", "hash", "phrase", "number")) == answer


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("x = 4\nprint(x * 2)", "8"),  # after worked examples: the text is the program
        (f"Here it is.\n{block('print(1)')}\n{block('print(9)')}\nDone.", "9"),
        (block(r"print('\\boxed{3}')"), "3"),
        (block("print('first')\nprint(2.5)"), "2.5"),
        (block("print(1)\n1 / 0"), None),
        (block("pass"), None),
    ],
)
def test_program_of_thought_answers_with_what_it_prints(sandbox: Sandbox, written: str, answer: str | None) -> None:
    (done,) = run_program(["Q"], writer({"Q": [written]}), sandbox.run_many)
    benchmark = load(BenchmarkRun(name="word_problems", limit=1, mode="pot"), 0, lambda _: None)
    completion = judged(benchmark, benchmark.problems[0], done)
    assert completion["answer"] == answer
    assert completion["rounds"] == len(completion["executions"]) == 1
    assert completion["tokens"] == len(written)


# --- in the evaluation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "name"), [("cot", "gsm8k"), ("pot", "gsm8k-pot"), ("tool", "gsm8k-tool")])
def test_modes_are_benchmarks_of_their_own(repository: Path, mode: str, name: str) -> None:
    path = str(repository / "examples" / "benchmarks" / "gsm8k.jsonl")
    run = BenchmarkRun.model_validate({"name": "gsm8k", "path": path, "limit": 2, "mode": mode})
    assert (run.key, load(run, 0, lambda _: None).name) == (name, name)
    both = EvalsConfig(benchmarks=[run, BenchmarkRun(name="math", mode="tool")])
    assert [b.key for b in both.benchmarks] == [name, "math-tool"]


def test_tool_prompts_are_the_papers(repository: Path) -> None:
    folder = repository / "examples" / "benchmarks"
    english = (
        "Please integrate natural language reasoning with programs to solve the problem above, "
        r"and put your final answer within \boxed{}."
    )
    chinese = r"请结合自然语言和Python程序语言来解答问题，并把最终答案放置于\boxed{}中。"
    for name, instruction in (("gsm8k", english), ("math", english), ("cmath", chinese)):
        run = BenchmarkRun(name=name, path=str(folder / f"{name}.jsonl"), limit=1, mode="tool")
        benchmark = load(run, 0, lambda _: None)
        problem = benchmark.problems[0]
        for few_shot in (False, True):  # there are no worked examples of this mode
            prompt = benchmark.prompt(problem, few_shot)
            assert prompt.text == f"User: {problem.question}\n{instruction}\n\nAssistant: "


@pytest.mark.parametrize("name", ["gsm8k", "math"])
def test_example_programs_print_the_answers_of_the_examples(sandbox: Sandbox, repository: Path, name: str) -> None:
    folder = repository / "evals" / "benchmarks" / "few_shot"
    prose, code = (yaml.safe_load((folder / f"{n}.yaml").read_text()) for n in (name, f"{name}_programs"))
    assert [e["question"] for e in prose["examples"]] == [e["question"] for e in code["examples"]]
    for told, program in zip(prose["examples"], code["examples"], strict=True):
        printed = sandbox.run(program["solution"]).stdout
        assert is_correct(extract_answer(told["solution"]) or "", f"${printed.strip()}$"), program["question"]
    run = BenchmarkRun(name=name, path=str(repository / f"examples/benchmarks/{name}.jsonl"), limit=1, mode="pot")
    benchmark = load(run, 0, lambda _: None)
    assert benchmark.prompt(benchmark.problems[0], few_shot=True).text.endswith("\nProgram:\n```python\n")


def test_tool_samples_resume_like_others(tmp_path: Path, lines: Any) -> None:
    run = BenchmarkRun(name="word_problems", limit=10, num_samples=8, mode="tool")
    file = SampleFile(tmp_path / "word_problems-tool.jsonl")
    made = lines("word_problems", "sft", 4)
    for completion in (c for line in made for c in line["completions"]):
        completion |= {"rounds": 2, "executions": [{"status": "ok", "seconds": 0.1}]}
    file.append(made)
    left = missing(load(run, 0, lambda _: None), run, file, few_shot=False)
    assert [len(job.problems) for job in left] == [6, 6]
    assert count_executions(file.lines()) == {"ok": 4 * 9}


def test_profile_may_name_a_remote_sandbox() -> None:
    remote = make_sandbox(SandboxConfig(url="http://sandbox:8080/", seconds=3))
    assert isinstance(remote, RemoteSandbox)
    assert (remote.url, remote.limits.seconds, remote.limits.cpu_seconds) == ("http://sandbox:8080", 3, 3)


# --- published solutions ---------------------------------------------------------------------------------------------


def test_published_tora_solutions_print_what_they_printed(shared_data: Path, sandbox: Sandbox) -> None:
    with open(shared_data / "tora" / "gsm8k-70b.jsonl", encoding="utf-8") as file:
        records = [json.loads(next(file)) for _ in range(50)]
    results = list(replay(records, sandbox))
    assert [o for r in results for o in r.outputs] == [SAME] * 50
    assert {r.prediction_compares for r in results} == {SAME, SAME_VALUE}
    assert all(r.right == r.recorded_right for r in results)


def test_published_examples_with_sympy_print_what_they_printed(shared_data: Path, sandbox: Sandbox) -> None:
    with open(shared_data / "tora" / "examples.jsonl", encoding="utf-8") as lines:
        examples = [json.loads(line) for line in lines]
    records = [{"gold": e["gt"], "trajectory": e["messages"][-1]["content"], "prediction": e["gt"]} for e in examples]
    results = list(replay(records, sandbox))
    assert sum(len(r.outputs) for r in results) == 25
    # The third one's program calls a function without parameters with one: nothing ever ran it.
    assert {r.number: o for r in results for o in r.outputs if o != SAME} == {3: "fails here, ran there"}
    # The twelfth one's gold answer is one of the two that its question asks for.
    assert [r.number for r in results if not r.right] == [12]


def test_replay_lists_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def record(code: str, output: str, prose: str, prediction: str) -> dict[str, str]:
        return {
            "gold": "2",
            "trajectory": f"{block(code)}\n```output\n{output}\n```\n{prose}",
            "prediction": prediction,
        }

    records = [
        record("print(2)", "2", r"\boxed{2.0}", "2"),
        record("print(0.1 + 0.2)", "0.30000000000000005", r"\boxed{2}", "2"),
        record("print(3)", "4", r"\boxed{2}", "2"),
        record("1 / 0", "TypeError: something else", r"\boxed{2}", "2"),
        record("print(2)", "NameError: name 'x' is not defined", "", "5"),
    ]
    path = tmp_path / "solutions.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    assert main([str(path)]) == 0
    printed = capsys.readouterr().out
    for line in (
        "line 2: output: same value, written differently",
        "line 3: output: another value (here '3', there '4')",
        "line 4: output: failed both times, another message",
        "line 5: output: runs here, failed there (here '2', there \"NameError: name 'x' is not defined\"); "
        "prediction: another answer (here '2', there '5'); verdict: right here, gold '2'",
    ):
        assert line in printed
    assert "line 1:" not in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"gold": "1"}', r"a\.jsonl:1: no text in trajectory, prediction"),
        ("[1]", "1: not a JSON object"),
        ("{", "not a JSON"),
    ],
)
def test_bad_solutions_are_named(tmp_path: Path, capsys: Any, text: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(text + "\n")
    assert main([str(tmp_path / "a.jsonl")]) == 2
    assert re.search(message, capsys.readouterr().err)
