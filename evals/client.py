"""Speaks HTTP to an SGLang server: token ids in, sampled completions out; new weights with a version that is checked.

In: prompts as token ids, SGLang's sampling parameters. Out: for each prompt, its `n` completions, in order.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any

import requests

SEQUENCES_PER_CALL = 32  # one HTTP call carries so many; progress advances by calls
CALLS_IN_FLIGHT = 32  # enough sequences to fill the server's largest batch; the rest wait here


class ServerDied(Exception):
    """The server does not answer any more: start it again and repeat the request."""


class RequestRefused(Exception):
    """The server lives and says that the request is wrong: repeating it changes nothing."""


class WeightVersionMismatch(Exception):
    """The server answers with other weights than it was given."""


@dataclass(frozen=True)
class Completion:
    """One sampled answer. `output_ids` holds the stop token when one ended it (finish_reason "stop")."""

    output_ids: list[int]
    logprobs: list[float] | None  # log-probability of each output id under the server's weights, temperature applied
    finish_reason: str  # stop, length or abort
    weight_version: str


class SGLangClient:
    """Requests to the server at `url`; `timeout` seconds for one HTTP call."""

    def __init__(self, url: str, timeout: float = 3600.0) -> None:
        self.url, self.timeout = url, timeout

    def generate(
        self,
        input_ids: Sequence[list[int]],
        sampling: dict[str, Any],
        n: int = 1,
        return_logprob: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> list[list[Completion]]:
        """Sample `n` completions of every prompt; the answer has the prompts' order.

        `sampling` is SGLang's `sampling_params` (temperature, top_p, max_new_tokens, stop_token_ids, ...) without `n`:
        the prompts are repeated here, side by side, so that the server batches all of them and shares their prefix
        (its own `n` first runs the prompts one after the other). `progress` is called with the number of completions
        of each finished call. The first failure cancels the calls that wait and, after those that run, is raised.
        """
        repeated = [ids for ids in input_ids for _ in range(n)]
        starts = range(0, len(repeated), SEQUENCES_PER_CALL)
        flat: list[Completion | None] = [None] * len(repeated)
        with ThreadPoolExecutor(max_workers=CALLS_IN_FLIGHT, thread_name_prefix="sglang") as pool:
            calls = {
                pool.submit(self._generate, repeated[i : i + SEQUENCES_PER_CALL], sampling, return_logprob): i
                for i in starts
            }
            try:
                for call in as_completed(calls):
                    completions, i = call.result(), calls[call]
                    flat[i : i + len(completions)] = completions
                    if progress is not None:
                        progress(len(completions))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        done = [completion for completion in flat if completion is not None]
        return [done[i : i + n] for i in range(0, len(done), n)]

    def _generate(self, prompts: list[list[int]], sampling: dict[str, Any], logprobs: bool) -> list[Completion]:
        body = {"input_ids": prompts, "sampling_params": sampling, "return_logprob": logprobs}
        answers = self.post("generate", body)
        if len(answers) != len(prompts):
            raise RequestRefused(f"{self.url}/generate: {len(answers)} answers to {len(prompts)} prompts")
        return [_completion(answer, logprobs) for answer in answers]

    def stream(self, input_ids: list[int], sampling: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
        """Sample one completion; yield its text so far whenever there is more, and at the end the finish reason.

        The text, not the ids: of those SGLang sends each once, and none twice when its reader is slow and misses some.
        Closing the iterator ends the request at the server.
        """
        body = {"input_ids": input_ids, "sampling_params": sampling, "stream": True}
        post = partial(requests.post, f"{self.url}/generate", json=body, timeout=self.timeout, stream=True)
        with _checked(post, self.url, "generate") as response:
            try:
                for line in response.iter_lines():
                    if line.startswith(b"data: {"):
                        answer = json.loads(line.removeprefix(b"data: "))
                        if "error" in answer:
                            raise RequestRefused(f"{self.url}/generate: {answer['error']}")
                        reason = answer["meta_info"]["finish_reason"]
                        yield answer["text"], reason["type"] if reason else None
            except requests.RequestException as error:
                raise ServerDied(f"{self.url}/generate: {type(error).__name__}: {error}") from error

    def update_weights(self, path: str, version: str) -> None:
        """Load the Hugging Face checkpoint in `path`; return when the server reports `version`."""
        self.post("update_weights_from_disk", {"model_path": path, "weight_version": version})
        self.check_weight_version(version)

    def check_weight_version(self, version: str) -> None:
        """Raise WeightVersionMismatch unless the server reports `version`."""
        reported = self._get("get_weight_version").json()["weight_version"]
        if reported != version:
            raise WeightVersionMismatch(f"{self.url} reports weight version {reported!r}, expected {version!r}")

    def flush_cache(self) -> None:
        """Forget the cached prefixes. The server refuses while requests run."""
        self.post("flush_cache", {})

    def abort_all(self) -> None:
        """End every running and waiting request now (finish_reason abort)."""
        self.post("abort_request", {"abort_all": True})

    def health(self) -> bool:
        """Whether the server answers and can generate a token."""
        try:
            return bool(requests.get(f"{self.url}/health", timeout=min(self.timeout, 30.0)).ok)
        except requests.RequestException:
            return False

    def post(self, route: str, body: dict[str, Any]) -> Any:
        """POST `body` to /`route`; the decoded JSON answer."""
        response = _checked(
            lambda: requests.post(f"{self.url}/{route}", json=body, timeout=self.timeout), self.url, route
        )
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response.json() if is_json else response.text

    def _get(self, route: str) -> requests.Response:
        return _checked(lambda: requests.get(f"{self.url}/{route}", timeout=self.timeout), self.url, route)


def _checked(send: Callable[[], requests.Response], url: str, route: str) -> requests.Response:
    """Send; tell a dead server (connection broken, no answer in time, 503) from a refused request."""
    try:
        response = send()
    except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
        raise ServerDied(f"{url}/{route}: {type(error).__name__}: {error}") from error
    if response.status_code == 503:
        raise ServerDied(f"{url}/{route}: 503 {response.text[:500]}")
    if not response.ok:
        raise RequestRefused(f"{url}/{route}: {response.status_code} {response.text[:500]}")
    return response


def _completion(answer: dict[str, Any], with_logprobs: bool) -> Completion:
    meta = answer["meta_info"]
    # output_token_logprobs: [[logprob, token id, text or null], ...]
    logprobs = [float(item[0]) for item in meta["output_token_logprobs"]] if with_logprobs else None
    return Completion(answer["output_ids"], logprobs, meta["finish_reason"]["type"], meta["weight_version"])
