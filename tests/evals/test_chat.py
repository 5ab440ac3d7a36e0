"""The chat without its server: prompts as in training, what may be shown while a text grows, requests, settings."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoTokenizer

from evals.chat.session import Chat, Turn, certain
from evals.chat.web import page, read_request
from evals.prompts import CHAT_STOP
from evals.sandbox import Limits, Sandbox
from pipeline.chat import main, server_config
from pipeline.run_dir import RunDir
from sft.formats import encode_prompt
from stage import UsageError


@pytest.fixture(scope="module")
def tokenizer(repository: Path) -> Any:
    return AutoTokenizer.from_pretrained(repository / "examples" / "tokenizer")


def chat(tokenizer: Any, context: int = 512, base: bool = False) -> Chat:
    return Chat(None, tokenizer, context, max_new_tokens=40, temperature=0.0, base=base)


def test_first_question_is_prompted_as_in_training(tokenizer: Any) -> None:
    assert chat(tokenizer).prompt([], "What is 1 + 1?") == encode_prompt(tokenizer, "What is 1 + 1?")


def test_earlier_turns_stand_before_the_question_as_the_chat_template_writes_them(tokenizer: Any) -> None:
    turns = [Turn("What is 1 + 1?", "#### 2"), Turn("多少?", "#### 3")]
    messages = [
        m for t in turns for m in ({"role": "user", "content": t.question}, {"role": "assistant", "content": t.answer})
    ]
    messages.append({"role": "user", "content": "And now?"})
    written = tokenizer.decode(chat(tokenizer).prompt(turns, "And now?"))
    assert written == tokenizer.apply_chat_template(messages, tokenize=False)


def test_oldest_turns_make_room_for_the_answer(tokenizer: Any) -> None:
    turns = [Turn(f"What is {i} + 1?", f"#### {i + 1}") for i in range(40)]
    prompt = chat(tokenizer, context=160).prompt(turns, "And now?")
    assert len(prompt) + 40 < 160
    written = tokenizer.decode(prompt)
    assert "What is 39 + 1?" in written and "What is 0 + 1?" not in written


def test_a_question_that_fills_the_context_is_refused_in_one_line(tokenizer: Any) -> None:
    with pytest.raises(UsageError, match=r"the question has \d+ tokens and the model's context holds 64"):
        chat(tokenizer, context=64).prompt([], "1 + " * 64)


def test_base_model_continues_the_text(tokenizer: Any) -> None:
    prompt = chat(tokenizer, base=True).prompt([Turn("a", "b")], "The sum of 1 and 2")
    assert tokenizer.decode(prompt) == "The sum of 1 and 2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1+1=2", "1+1=2"), ("1+1=2\n", "1+1=2"), ("1\nUse", "1"), ("1\nUsers", "1\nUsers"), ("多\ufffd", "多"), ("", "")],
)
def test_only_what_can_no_longer_change_is_shown(text: str, shown: str) -> None:
    assert certain(text, CHAT_STOP) == shown


@pytest.mark.parametrize("body", [b"", b"[]", b'{"question": "x"}', b'{"turns": [{"question": "x"}], "question": "y"}'])
def test_wrong_requests_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="expected turns and a question"):
        read_request(body)


def test_page_escapes_the_runs_name() -> None:
    assert b"<h1>&lt;b&gt;, grpo</h1>" in page("<b>, grpo", base=False)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    server = {"device": "cuda", "dtype": "bfloat16", "tp_size": 8, "weight_sync": "nccl", "extra_args": ["--x"]}
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump({"server": server}))
    return RunDir(tmp_path)


def test_a_run_of_gpus_can_be_talked_to_on_a_cpu(run: RunDir) -> None:
    assert server_config(run, None).tp_size == 8
    on_cpu = server_config(run, "cpu")
    assert (on_cpu.device, on_cpu.dtype, on_cpu.tp_size, on_cpu.extra_args) == ("cpu", "float32", 1, ())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no published checkpoint (grpo, sft, pretrain)"),
        (["--stage", "sft"], "--stage sft: not published"),
        (["--prompt", "x", "--web"], "--prompt and --web exclude each other"),
        (["--max-new-tokens", "0"], "--max-new-tokens must be at least 1"),
    ],
)
def test_wrong_use_is_one_line(
    run: RunDir, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--run", str(run.path), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


class Script:
    """Answers with the texts it was given, one a request, in two pieces, and keeps what it was asked."""

    def __init__(self, tokenizer: Any, *texts: str) -> None:
        self.tokenizer, self.texts, self.asked = tokenizer, list(texts), list[str]()

    def stream(self, prompt: list[int], sampling: dict[str, Any]) -> Iterator[tuple[str, bool]]:
        assert "```output" in sampling["stop"]
        self.asked.append(self.tokenizer.decode(prompt))
        text = self.texts.pop(0)
        yield text[: len(text) // 2], False
        yield text, True


def test_a_program_runs_when_its_block_is_closed_and_the_model_goes_on_below_its_output(tokenizer: Any) -> None:
    with Sandbox(Limits(seconds=60, cpu_seconds=60), workers=1) as sandbox:
        first = "```python\nn = 6 * 7\nprint(n)\n```\n"
        script = Script(tokenizer, first, r"It is \boxed{42}.")
        talking = replace(chat(tokenizer), client=script, sandbox=sandbox)
        answer = "".join(talking.reply([], "6 * 7?"))
    assert answer == first + "```output\n42\n```\n" + r"It is \boxed{42}."
    assert "integrate natural language reasoning with programs" in script.asked[0]
    assert script.asked[1] == script.asked[0] + first + "```output\n42\n```\n"


def test_tools_ask_in_the_language_of_the_question(tokenizer: Any) -> None:
    with Sandbox(workers=1) as sandbox:
        script = Script(tokenizer, "好的。")
        assert "".join(replace(chat(tokenizer), client=script, sandbox=sandbox).reply([], "六乘七是多少?")) == "好的。"
    assert "请结合自然语言和Python程序语言来解答问题" in script.asked[0]
