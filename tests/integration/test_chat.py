"""The chat on the real SGLang server: one start of the command answers a page, a plain request and a terminal."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import torch
import yaml
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from evals.chat import Chat
from evals.chat.terminal import ask_once
from evals.client import SGLangClient
from evals.prompts import chat_prompt
from tests.browser import Page

pytestmark = pytest.mark.integration

SERVER = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8000, "mem_fraction_static": 0.2}
QUESTION = "Tom has 3 pens. How many pens does Tom have?"
NEW_TOKENS = 24
PATIENCE = 300.0  # seconds, for a server start on a busy machine


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A run directory with one published checkpoint of random weights."""
    run = tmp_path_factory.mktemp("runs") / "<b>chat"
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=1024, max_position_embeddings=128, bos_token_id=0, eos_token_id=0, **shape)
    LlamaForCausalLM(config).save_pretrained(run / "sft" / "hf")
    shutil.copytree(repository / "examples" / "tokenizer", run / "sft" / "hf", dirs_exist_ok=True)
    (run / "sft" / "manifest.json").write_text("{}")
    (run / "profile.yaml").write_text(yaml.safe_dump({"server": SERVER}))
    return run


@pytest.fixture(scope="module")
def command(run_dir: Path, repository: Path) -> Iterator[tuple[str, psutil.Process]]:
    """`pipeline.chat --web` as a user starts it: its address and its process."""
    arguments = ["--run", str(run_dir), "--web", "--port", "0", "--max-new-tokens", str(NEW_TOKENS)]
    said = run_dir / "said"
    with open(said, "w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.chat", *arguments], cwd=repository, stdout=out, stderr=out
        )
    deadline = time.monotonic() + PATIENCE
    while not (address := re.search(r"http://127\.0\.0\.1:\d+/", said.read_text())):
        assert process.poll() is None and time.monotonic() < deadline, said.read_text()
        time.sleep(0.1)
    yield address[0], psutil.Process(process.pid)
    process.kill()
    process.wait()


def test_answers_the_same_on_the_page_in_the_terminal_and_without_streaming(
    command: tuple[str, psutil.Process], run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, process = command
    client = SGLangClient(f"http://127.0.0.1:{server_port(process)}")
    tokenizer = AutoTokenizer.from_pretrained(run_dir / "sft" / "hf")
    expected = whole_answer(client, tokenizer)

    lines = ask(url, {"turns": [], "question": QUESTION})
    assert lines[-1] == {"end": True} and len(lines) > 4  # it came in pieces
    assert "".join(line["text"] for line in lines[:-1]) == expected

    ask_once(Chat(client, tokenizer, 128, NEW_TOKENS, temperature=0.0, base=False), QUESTION)
    assert capsys.readouterr().out == expected + "\n"

    too_long = ask(url, {"turns": [], "question": "1 + " * 200})
    assert "ask a shorter one" in too_long[-1]["error"]
    assert requests.get(url, headers={"Host": "elsewhere.example:80"}, timeout=60).status_code == 404
    assert requests.post(url + "answer", json={}, timeout=60).status_code == 400

    page = Page(tmp_path)
    try:
        page.open(url)
        page.run(f"question.value = {json.dumps(QUESTION + ' $x^2$')}; form.requestSubmit()")
        page.wait_for("turns.children.length === 2 && document.querySelector('[aria-busy]') === null")
        assert page.run("document.querySelector('.question annotation').textContent") == "x^2"
        assert len(page.run("document.querySelector('.answer').textContent")) > 4
        assert page.run("document.querySelector('h1').textContent") == "<b>chat, sft"
        assert page.barriers() == []
        assert page.errors == []
    finally:
        page.close()


def test_ends_without_leaving_a_process(command: tuple[str, psutil.Process]) -> None:
    _, process = command
    processes = [process, *process.children(recursive=True)]
    process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []


def ask(url: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of an answer."""
    answer = requests.post(url + "answer", json=request, timeout=120)
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def whole_answer(client: SGLangClient, tokenizer: Any) -> str:
    """The greedy answer asked for in one piece."""
    ids = tokenizer.encode(chat_prompt(QUESTION), add_special_tokens=False)
    sampling = {"temperature": 0.0, "max_new_tokens": NEW_TOKENS, "stop_token_ids": [tokenizer.eos_token_id]}
    text: str = tokenizer.decode(client.generate([ids], sampling)[0][0].output_ids, skip_special_tokens=True)
    return text


def server_port(process: psutil.Process) -> int:
    """The port of the SGLang server below the command."""
    for child in process.children(recursive=True):
        arguments = child.cmdline()
        if "--port" in arguments:
            return int(arguments[arguments.index("--port") + 1])
    raise AssertionError("no SGLang server")
