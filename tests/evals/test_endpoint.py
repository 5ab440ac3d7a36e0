"""OpenAI-compatible endpoints: a server that fails, stalls and talks nonsense costs no answer and fakes none."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evals.endpoint import Endpoint
from evals.prompts import Prompt
from evals.run import main
from evals.writers import Generated, Unanswered
from stage import UsageError

SAMPLING = {"temperature": 0.0, "max_new_tokens": 32}
Reply = tuple[int, dict[str, str], Any]
Behaviour = Callable[[int, dict[str, Any]], Reply]


def says(text: str | None, finish: str = "stop") -> Reply:
    choice = {"message": {"role": "assistant", "content": text}, "text": text, "finish_reason": finish}
    return 200, {}, {"choices": [choice], "usage": {"completion_tokens": 7}}


class Server:
    """An HTTP server on a free port. `behaviour(number, body)` answers the request; every request is kept."""

    def __init__(self) -> None:
        self.behaviour: Behaviour = lambda _n, _b: says(r"\boxed{42}")
        self.requests: list[tuple[str, dict[str, Any], dict[str, str], float]] = []
        lock, server = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    number = len(server.requests)
                    server.requests.append((self.path, body, dict(self.headers), time.monotonic()))
                status, headers, answer = server.behaviour(number, body)
                raw = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                for key, value in {"content-length": str(len(raw)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def write(endpoint: Endpoint, prompts: list[Prompt], n: int = 1, **more: float) -> list[Any]:
    """What was written for each prompt, in order."""
    written = dict(endpoint.write(prompts, {**SAMPLING, **more}, n))
    return [written[i] for i in range(len(prompts))]


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


def test_chat_sends_the_users_turn_and_completions_the_whole_prompt(server: Server) -> None:
    prompt = Prompt("User: 6 * 7?\n\nAssistant: ", ("\nUser:",), "6 * 7?")
    (answers,) = write(Endpoint(server.url, "m", api_key="secret"), [prompt], 2, top_p=0.9)
    assert answers == [Generated(r"\boxed{42}", 7, "stop")] * 2
    path, body, headers, _ = server.requests[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "6 * 7?"}],
        "temperature": 0.0,
        "top_p": 0.9,
        "max_tokens": 32,
    }
    server.behaviour = lambda _n, _b: says("42\nUser: more", "length")
    (answers,) = write(Endpoint(server.url, "m", "completions"), [prompt])
    assert answers == [Generated("42", 7, "length")]
    path, body, _, _ = server.requests[-1]
    assert path == "/v1/completions" and body["prompt"] == prompt.text and body["stop"] == ["\nUser:"]


@pytest.mark.parametrize(
    "fault",
    [
        (500, {}, "oops"),
        (429, {"retry-after": "0"}, ""),
        (503, {}, ""),
        (200, {}, "<html>"),
        (200, {}, {"choices": []}),
        says(None),
    ],
)
def test_what_may_pass_is_tried_again(server: Server, fault: Reply) -> None:
    server.behaviour = lambda number, _: fault if number < 2 else says("fine")
    assert write(Endpoint(server.url, "m", first_pause=0.01), [Prompt("a")]) == [[Generated("fine", 7, "stop")]]
    assert len(server.requests) == 3


def test_retry_after_is_obeyed(server: Server) -> None:
    server.behaviour = lambda number, _: (429, {"retry-after": "0.5"}, "") if number == 0 else says("fine")
    write(Endpoint(server.url, "m", first_pause=0.001, concurrency=1), [Prompt("a"), Prompt("b")])
    assert server.requests[1][3] - server.requests[0][3] >= 0.5
    assert len(server.requests) == 3


def test_a_refusal_is_final_and_touches_no_other_prompt(server: Server) -> None:
    server.behaviour = lambda _n, body: (
        (400, {}, "too\n long") if body["messages"][0]["content"] == "bad" else says("fine")
    )
    good, bad = write(Endpoint(server.url, "m"), [Prompt("good"), Prompt("bad")], 2)
    assert good == [Generated("fine", 7, "stop")] * 2
    assert bad == Unanswered("endpoint: HTTP 400: too long", again=True)


def test_a_dead_server_is_given_up_after_a_few_tries() -> None:
    endpoint = Endpoint("http://127.0.0.1:9/v1", "m", tries=3, first_pause=0.01)
    (answer,) = write(endpoint, [Prompt("a")])
    assert answer == Unanswered("endpoint: ConnectionError, 3 times", again=True)
    with pytest.raises(UsageError, match=r"ConnectionError, 3 times, the last 16 requests alike; stopped"):
        write(endpoint, [Prompt("a")] * 40)


def test_answers_are_given_on_as_they_come(server: Server) -> None:
    def behaviour(_n: int, body: dict[str, Any]) -> Reply:
        slow = body["messages"][0]["content"] == "slow"
        return gate.wait(20) and says("late") if slow else says("early")

    gate = threading.Event()
    server.behaviour = behaviour
    written = Endpoint(server.url, "m", concurrency=2).write([Prompt("slow"), Prompt("a"), Prompt("b")], SAMPLING, 1)
    assert [next(written)[0], next(written)[0]] == [1, 2]
    gate.set()
    assert next(written) == (0, [Generated("late", 7, "stop")])


@pytest.mark.parametrize("status", [301, 401, 404])
def test_what_is_wrong_for_all_requests_ends_the_command_at_once(server: Server, status: int) -> None:
    server.behaviour = lambda _n, _b: (status, {}, "no such key: sk-123")
    with pytest.raises(UsageError, match=rf"HTTP {status}: no such key: <key> \(--endpoint ends in /v1"):
        write(Endpoint(server.url, "m", api_key="sk-123", concurrency=1), [Prompt("a")] * 9)
    assert len(server.requests) == 1


def test_a_moderated_or_exhausted_answer_is_no_wrong_answer(server: Server) -> None:
    server.behaviour = lambda _n, _b: says("", "content_filter")
    (withheld,) = write(Endpoint(server.url, "m"), [Prompt("a")])
    assert withheld == Unanswered("endpoint: withheld by its content filter", again=True)
    server.behaviour = lambda _n, _b: says(None, "length")  # a thinker that ran out of tokens: cut off, as elsewhere
    assert write(Endpoint(server.url, "m"), [Prompt("a")]) == [[Generated("", 7, "length")]]


@pytest.mark.parametrize("answer", [[], {"choices": ["x"]}, {"choices": [{"message": "x"}]}, "\x00", "[" * 100_000])
def test_nonsense_is_no_answer(server: Server, answer: Any) -> None:
    server.behaviour = lambda _n, _b: (200, {}, answer)
    (unanswered,) = write(Endpoint(server.url, "m", tries=2, first_pause=0.01), [Prompt("a")])
    assert unanswered == Unanswered("endpoint: a response without choices[0], 2 times", again=True)


def test_key_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "sk-123" not in repr(Endpoint("http://x/v1", "m", api_key="sk-123"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123\nsk-456")
    command = ["--endpoint", "http://127.0.0.1:9/v1", "--model", "m", "--benchmark", "gsm8k", "--output", str(tmp_path)]
    assert main([*command, "--data", str(repository / "examples/benchmarks/gsm8k.jsonl")]) == 2
    said = capsys.readouterr()
    assert "OPENAI_API_KEY: no API key" in said.err and "sk-" not in said.out + said.err


def test_requests_keep_their_distance(server: Server) -> None:
    write(Endpoint(server.url, "m", requests_per_minute=600), [Prompt(str(i)) for i in range(5)])
    times = sorted(at for *_, at in server.requests)
    assert times[-1] - times[0] >= 4 * 0.1 * 0.9


def test_an_endpoint_is_measured_and_what_it_failed_to_answer_is_asked_again(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"question": f"{i} * 7?", "answer": f"#### {i * 7}"}) + "\n" for i in range(6)))
    server.behaviour = lambda _n, body: (
        (400, {}, "no") if body["messages"][0]["content"].startswith("3 ") else says(r"\boxed{42}")
    )
    out = tmp_path / "out"
    command = ["--endpoint", server.url, "--model", "org/model", "--benchmark", "gsm8k", "--data", str(data)]
    command += ["--output", str(out), "--num-samples", "2"]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "not answered, asked again by the same command: 2, endpoint: HTTP 400: no" in said.err
    assert "gsm8k, org-model: accuracy 0.0" in said.out  # 6 * 7 is not among 0 to 5
    asked = len(server.requests)
    server.behaviour = lambda _n, body: says(rf"\boxed{{{int(body['messages'][0]['content'][0]) * 7}}}")
    assert main(command) == 0
    assert len(server.requests) == asked + 3  # one greedy, two samples
    report = json.loads((out / "report.json").read_text())
    result = report["results"]["gsm8k"]["org-model"]
    assert result["problems"] == 6 and result["metrics"]["accuracy"]["value"] == pytest.approx(1 / 6)
    assert main(command) == 0
    assert len(server.requests) == asked + 3
    capsys.readouterr()
    assert main([*command, "--temperature", "1"]) == 2  # answers of two settings do not mix
    assert "its answers were asked for with temperature 0.7; choose another --output" in capsys.readouterr().err


def test_a_killed_command_asks_for_nothing_twice(server: Server, tmp_path: Path) -> None:
    data, asked = tmp_path / "data.jsonl", Counter[str]()
    data.write_text("".join(json.dumps({"question": f"{i} * 7?", "answer": str(i * 7)}) + "\n" for i in range(40)))

    def behaviour(_n: int, body: dict[str, Any]) -> Reply:
        asked[body["messages"][0]["content"]] += 1
        time.sleep(0.02)
        return says(rf"\boxed{{{body['messages'][0]['content'].split()[0]}}}")

    server.behaviour = behaviour
    command = ["--endpoint", server.url, "--model", "m", "--benchmark", "gsm8k", "--data", str(data)]
    command += ["--output", str(tmp_path / "out"), "--concurrency", "2"]
    process = subprocess.Popen([sys.executable, "-m", "evals.run", *command], stderr=subprocess.DEVNULL)
    file = tmp_path / "out/samples/m/gsm8k.jsonl"
    while not file.is_file() or file.read_bytes().count(b"\n") < 10:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = {json.loads(line)["question"] for line in file.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"}
    with open(file, "a") as f:
        f.write('{"id": "39", "mode": "gre')  # as a kill in the middle of a line leaves it
    assert main(command) == 0
    assert len(asked) == 40
    assert all(asked[q] == 1 for q in asked if q.split("\n")[0] in kept)
    assert sum(asked.values()) <= 40 + 3  # what was under way, in two threads and on its way to the file
    result = json.loads((tmp_path / "out/report.json").read_text())["results"]["gsm8k"]["m"]
    assert result["problems"] == 40 and result["metrics"]["accuracy"]["value"] == 1 / 40


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ([], "--endpoint needs --model"),
        (["--model", "m", "--benchmark", "nope"], "unknown benchmark 'nope'"),
        (["--model", "m", "--mode", "tool"], "--mode tool continues its own text: it needs --api completions"),
        (["--model", "m", "--endpoint", "localhost:8000"], "--endpoint localhost:8000: expected http://host:port/v1"),
        (["--model", "m", "--temperature", "0"], "--temperature: Input should be greater than 0"),
    ],
)
def test_a_mistake_is_one_line(
    more: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--endpoint", "http://127.0.0.1:9/v1", "--benchmark", "gsm8k", "--output", str(tmp_path), *more]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1
