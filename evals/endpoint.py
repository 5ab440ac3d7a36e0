"""Answers of any OpenAI-compatible server: many requests at once, repeated where that may help, no faster than allowed.

In: prompts. Out: texts, or for a prompt whose request failed for good, why. `chat` sends the user's turn and leaves the
template to the server; `completions` sends our own prompt text, which worked examples and tool loops need.
"""

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import requests

from evals.prompts import Prompt, cut_at_stop
from evals.writers import Generated, Unanswered

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two tries; doubled each time
REPEATABLE = (408, 409, 425, 429)  # besides 5xx: another try may succeed


@dataclass
class Endpoint:
    """The model `name` of the server at `url` (up to and including its /v1)."""

    url: str
    name: str
    api: Literal["chat", "completions"] = "chat"
    api_key: str | None = None
    concurrency: int = 16
    requests_per_minute: float | None = None
    tries: int = 6
    timeout: float = 600.0  # seconds for one request
    first_pause: float = FIRST_PAUSE
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _next: float = 0.0

    def prompt_tokens(self, prompt: Prompt) -> int:
        """Not known here."""
        return 0

    def write(self, prompts: Sequence[Prompt], sampling: dict[str, Any], n: int) -> list[list[Generated] | Unanswered]:
        """`n` texts for each prompt; a prompt one of whose requests failed for good has none."""
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="endpoint") as pool:
            flat = list(pool.map(lambda p: self._one(p, sampling), [p for p in prompts for _ in range(n)]))
        groups = [flat[i : i + n] for i in range(0, len(flat), n)]
        written: list[list[Generated] | Unanswered] = []
        for group in groups:
            failed = [x for x in group if isinstance(x, Unanswered)]
            written.append(failed[0] if failed else [x for x in group if isinstance(x, Generated)])
        return written

    def _one(self, prompt: Prompt, sampling: dict[str, Any]) -> Generated | Unanswered:
        """One request, repeated with growing pauses while that may help."""
        pause, reason = self.first_pause, ""
        for attempt in range(self.tries):
            self._wait_for_turn()
            wait: float | None = None
            try:
                response = self._post(prompt, sampling)
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                reason = f"endpoint: {type(error).__name__}"
            else:
                if response.ok:
                    found = _read(response, prompt, self.api)
                    if isinstance(found, Generated):
                        return found
                    reason = found
                elif response.status_code >= 500 or response.status_code in REPEATABLE:
                    reason, wait = f"endpoint: HTTP {response.status_code}", _retry_after(response)
                else:
                    said = " ".join(response.text.split())[:200]
                    return Unanswered(f"endpoint: HTTP {response.status_code}: {said}", again=True)
            if attempt < self.tries - 1:
                time.sleep(min(LONGEST_PAUSE, wait if wait is not None else pause * random.uniform(0.5, 1.5)))
                pause *= 2
        return Unanswered(f"{reason}, {self.tries} times", again=True)

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
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return requests.post(f"{self.url.rstrip('/')}/{route}", json=body, headers=headers, timeout=self.timeout)

    def _wait_for_turn(self) -> None:
        """Requests start at least 60 / requests_per_minute seconds apart."""
        if self.requests_per_minute is None:
            return
        with self._turn:
            at = max(time.monotonic(), self._next)
            self._next = at + 60.0 / self.requests_per_minute
        time.sleep(max(0.0, at - time.monotonic()))


def _read(response: requests.Response, prompt: Prompt, api: str) -> Generated | str:
    """The answer in a response, or what is wrong with it."""
    try:
        answer = response.json()
        choice = answer["choices"][0]
        text = choice["message"]["content"] if api == "chat" else choice["text"]
    except (ValueError, LookupError, TypeError):
        return "endpoint: a response without choices[0]"
    if not isinstance(text, str):
        return "endpoint: a response without text"
    tokens = (answer.get("usage") or {}).get("completion_tokens")
    length = choice.get("finish_reason") == "length"
    stop = prompt.stop if api == "completions" else ()
    return Generated(cut_at_stop(text, stop), tokens if isinstance(tokens, int) else 0, "length" if length else "stop")


def _retry_after(response: requests.Response) -> float | None:
    """Seconds that the server asks to wait, when it says so in seconds."""
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
