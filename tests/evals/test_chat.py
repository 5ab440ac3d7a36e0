"""The chat without its server: prompts as in training, what may be shown while a text grows, requests, settings."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from transformers import AutoTokenizer

from evals.chat.session import Chat, Turn, certain
from evals.chat.web import page, read_request, server
from evals.prompts import CHAT_STOP
from evals.sandbox import Limits, Sandbox
from pipeline.chat import main, server_config
from pipeline.run_dir import RunDir
from sft.formats import encode_prompt
from stage import UsageError
from tests.browser import Page

ATTACK = (
    '<img src=x onerror="window.ran = 1"><script>window.ran = 2</script> '
    r"$\href{javascript:window.ran=3}{x}$ 答案是42。"
)


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
        self.stop = sampling["stop"]
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
    assert "```output" in script.stop
    assert "integrate natural language reasoning with programs" in script.asked[0]
    assert script.asked[1] == script.asked[0] + first + "```output\n42\n```\n"


def test_tools_ask_in_the_language_of_the_question(tokenizer: Any) -> None:
    with Sandbox(workers=1) as sandbox:
        script = Script(tokenizer, "好的。")
        assert "".join(replace(chat(tokenizer), client=script, sandbox=sandbox).reply([], "六乘七是多少?")) == "好的。"
    assert "请结合自然语言和Python程序语言来解答问题" in script.asked[0]


@pytest.fixture
def site(tokenizer: Any) -> Iterator[tuple[str, Script]]:
    """A chat page whose model says ATTACK: its address and the model."""
    script = Script(tokenizer, ATTACK)
    http = server(replace(chat(tokenizer), client=script), "run, grpo", 0)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}/", script
    http.shutdown()
    http.server_close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://elsewhere.example"}, 404),
        ({"Origin": "null"}, 404),
        ({"Origin": "http://127.0.0.1:1"}, 404),  # another program's page on this machine
        ({"Host": "elsewhere.example"}, 404),
        ({"Content-Type": "text/plain"}, 415),  # what a browser sends to other sites without asking them
    ],
)
def test_no_other_site_can_ask(site: tuple[str, Script], headers: dict[str, str], status: int) -> None:
    url, script = site
    question = json.dumps({"turns": [], "question": "What is 1 + 1?"})
    usual = {"Content-Type": "application/json"}
    assert requests.post(url + "answer", data=question, headers=usual | headers, timeout=60).status_code == status
    assert requests.options(url + "answer", timeout=60).status_code == 501
    assert script.asked == []


def test_a_request_of_no_length_is_refused(site: tuple[str, Script]) -> None:
    connection = HTTPConnection(site[0].split("/")[2], timeout=60)
    connection.request("POST", "/answer", b"", {"Content-Type": "application/json", "Content-Length": "-1"})
    assert connection.getresponse().status == 400
    connection.close()


def test_page_shows_what_a_model_wrote_as_text_and_may_not_be_framed(site: tuple[str, Script], tmp_path: Path) -> None:
    url, script = site
    assert requests.get(url, timeout=60).headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    browser = Page(tmp_path)
    try:
        browser.open("about:blank")
        body = json.dumps(json.dumps({"turns": [], "question": "1?"}))
        browser.run(f"fetch('{url}answer', {{method: 'POST', mode: 'no-cors', body: {body}}}).catch(() => 0)")
        assert script.asked == []
        browser.errors.clear()
        browser.open(url)
        browser.run("question.value = '六乘七?'; form.requestSubmit()")
        browser.wait_for("turns.children.length === 2 && document.querySelector('[aria-busy]') === null")
        said = browser.run("document.querySelector('.answer').textContent")
        assert said.startswith(ATTACK.partition(" $")[0]) and said.endswith("答案是42。")
        assert (
            browser.run("window.ran") is None
            and browser.run("document.querySelector('#turns :is(img, script, a)')") is None
        )
        assert "六乘七?" in script.asked[0] and browser.errors == []
    finally:
        browser.close()
