"""Answers of any OpenAI-compatible server: many requests at once, repeated where that may help, no faster than allowed.

In: prompts. Out: texts, or for a prompt whose request failed for good, why. `chat` sends the user's turn and leaves the
template to the server; `completions` sends our own prompt text, which worked examples and tool loops need.
The key goes into the request's header and nowhere else: no message and no file holds it.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal

import requests

from evals.prompts import Prompt, cut_at_stop
from evals.writers import Generated, Unanswered
from stage import UsageError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two tries; doubled each time
LONGEST_WAIT = 900.0  # seconds; a server that asks for a longer pause (Retry-After) is asked again after these
CONNECT_TIMEOUT = 30.0  # seconds
REPEATABLE = (408, 409, 425, 429)  # besides 5xx: another try may succeed
WRONG_FOR_ALL = (301, 302, 303, 307, 308, 401, 404)  # wrong address, key or model name, unless others were answered
ENOUGH_FAILURES = 4  # requests given up in a row, or one for each that runs at once: the server is gone


@dataclass
class Endpoint:
    """The model `name` of the server at `url` (up to and including its /v1)."""

    url: str
    name: str
    api: Literal["chat", "completions"] = "chat"
    api_key: str | None = field(default=None, repr=False)
    concurrency: int = 16
    requests_per_minute: float | None = None
    tries: int = 6
    timeout: float = 600.0  # seconds of silence in one request
    first_pause: float = FIRST_PAUSE
    _session: requests.Session = field(default_factory=requests.Session, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _next: float = 0.0  # when the next request may start
    _answered: bool = False  # whether any request was
    _failures: int = 0  # requests given up since the last answer

    def __post_init__(self) -> None:
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=self.concurrency))

    def prompt_tokens(self, prompt: Prompt) -> int:
        """Not known here."""
        return 0

    def write(
        self, prompts: Sequence[Prompt], sampling: dict[str, Any], n: int
    ) -> Iterator[tuple[int, list[Generated] | Unanswered]]:
        """Each prompt's number and its `n` texts, as they come; none where one of its requests failed for good.

        Raises UsageError when address, key or model name are wrong, and when the server answers nothing any more.
        """
        waiting = deque(i for i in range(len(prompts)) for _ in range(n))
        found: SimpleQueue[tuple[int, Generated | Unanswered | Exception]] = SimpleQueue()

        def work() -> None:
            while waiting:
                try:
                    i = waiting.popleft()
                except IndexError:  # another thread was quicker
                    return
                try:
                    found.put((i, self._one(prompts[i], sampling)))
                except Exception as error:  # raised where the answers are read
                    found.put((i, error))

        for _ in range(min(self.concurrency, len(waiting))):
            threading.Thread(target=work, daemon=True).start()  # Ctrl-C does not wait for requests in flight
        groups: list[list[Generated | Unanswered]] = [[] for _ in prompts]
        try:
            for _ in range(len(prompts) * n):
                i, answer = found.get()
                if isinstance(answer, Exception):
                    raise answer
                groups[i].append(answer)
                if len(groups[i]) == n:
                    yield i, _together(groups[i])
        finally:
            waiting.clear()

    def _one(self, prompt: Prompt, sampling: dict[str, Any]) -> Generated | Unanswered:
        """One request, repeated with growing pauses while that may help."""
        pause, reason = self.first_pause, ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(min(LONGEST_PAUSE, pause * random.uniform(0.5, 1.5)))
                pause *= 2
            self._wait_for_turn()
            try:
                response = self._post(prompt, sampling)
            except requests.RequestException as error:  # refused, silent, cut off, or garbled on the way
                reason = f"endpoint: {type(error).__name__}"
                continue
            if response.status_code >= 500 or response.status_code in REPEATABLE:
                reason = f"endpoint: HTTP {response.status_code}"
                self._hold(_retry_after(response))
            elif response.status_code >= 300:
                return self._refused(response)
            else:
                found = _read(response, prompt, self.api)
                if not isinstance(found, str):
                    self._answered, self._failures = True, 0
                    return found
                reason = found
        return self._given_up(f"{reason}, {self.tries} times")

    def _refused(self, response: requests.Response) -> Unanswered:
        """The refusal of one request; UsageError when every other one would be refused too."""
        said = " ".join((response.headers.get("location") or response.text).split())[:200]
        said = said.replace(self.api_key, "<key>") if self.api_key else said
        reason = f"endpoint: HTTP {response.status_code}: {said}"
        if response.status_code in WRONG_FOR_ALL and not self._answered:
            raise UsageError(f"{reason} (--endpoint ends in /v1; check it, --model and the key)")
        return Unanswered(reason, again=True)

    def _given_up(self, reason: str) -> Unanswered:
        """A request that no try helped; UsageError when the last ones all ended so."""
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= max(ENOUGH_FAILURES, self.concurrency):
            raise UsageError(f"{reason}, the last {failures} requests alike; stopped, the same command goes on")
        return Unanswered(reason, again=True)

    def _post(self, prompt: Prompt, sampling: dict[str, Any]) -> requests.Response:
        body: dict[str, Any] = {
            "model": self.name,
            "temperature": sampling["temperature"],
            "max_tokens": sampling["max_new_tokens"],
        }
        body |= {"top_p": sampling["top_p"]} if "top_p" in sampling else {}
        if self.api == "chat":
            route, body["messages"] = "chat/completions", [{"role": "user", "content": prompt.message or prompt.text}]
        else:
            route, body["prompt"] = "completions", prompt.text
            body |= {"stop": list(prompt.stop)[:4]} if prompt.stop else {}  # the protocol takes four
        return self._session.post(
            f"{self.url.rstrip('/')}/{route}",
            json=body,
            auth=self._authorize,
            timeout=(CONNECT_TIMEOUT, self.timeout),
            allow_redirects=False,  # a POST would arrive as a GET
        )

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Set the key's header. As `auth`, so that no password of ~/.netrc takes its place."""
        if self.api_key:
            request.headers["Authorization"] = f"Bearer {self.api_key}"
        return request

    def _wait_for_turn(self) -> None:
        """Requests start at least 60 / requests_per_minute seconds apart, and none while the server wants a pause."""
        with self._lock:
            at = max(time.monotonic(), self._next)
            self._next = at + (60.0 / self.requests_per_minute if self.requests_per_minute else 0.0)
        time.sleep(max(0.0, at - time.monotonic()))

    def _hold(self, seconds: float) -> None:
        """Start no request, of any thread, for so long."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + min(seconds, LONGEST_WAIT))


def _together(answers: list[Generated | Unanswered]) -> list[Generated] | Unanswered:
    failed = [x for x in answers if isinstance(x, Unanswered)]
    return failed[0] if failed else [x for x in answers if isinstance(x, Generated)]


def _read(response: requests.Response, prompt: Prompt, api: str) -> Generated | Unanswered | str:
    """The answer in a response, or what is wrong with it."""
    try:
        answer = response.json()
        choice = answer["choices"][0]
        text = choice["message"]["content"] if api == "chat" else choice["text"]
        reason, usage = choice.get("finish_reason"), answer.get("usage")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "endpoint: a response without choices[0]"
    if reason == "content_filter":
        return Unanswered("endpoint: withheld by its content filter", again=True)
    if text is None and reason == "length":
        text = ""  # all tokens went into thoughts that the server keeps to itself
    if not isinstance(text, str):
        return "endpoint: a response without text"
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    stop = prompt.stop if api == "completions" else ()
    length = "length" if reason == "length" else "stop"
    return Generated(cut_at_stop(text, stop), tokens if isinstance(tokens, int) else 0, length)


def _retry_after(response: requests.Response) -> float:
    """Seconds that the server asks to wait; 0 when it doesn't say so in seconds."""
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return 0.0
