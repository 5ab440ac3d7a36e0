"""Who writes the answers: a checkpoint behind our SGLang server, or an OpenAI-compatible endpoint (evals/endpoint.py).

In: prompts and sampling parameters. Out: for each prompt its texts, or why there are none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evals.client import Completion, ServerDied
from evals.prompts import Prompt, cut_at_stop
from evals.server import SGLangServer

TRIES = 3  # of a batch whose server dies


@dataclass(frozen=True)
class Generated:
    """What a model wrote, without the stop string that ended it."""

    text: str
    tokens: int
    finish_reason: str  # stop or length


@dataclass(frozen=True)
class Unanswered:
    """Why a prompt has no text; `again`: another time it may have one."""

    reason: str
    again: bool


class Writer(Protocol):
    """What evals.sampling asks. `sampling` holds temperature, top_p and max_new_tokens, as SGLang calls them."""

    name: str

    def prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of the prompt; 0 where only the server could say."""

    def write(
        self, prompts: Sequence[Prompt], sampling: dict[str, Any], n: int
    ) -> Iterator[tuple[int, list[Generated] | Unanswered]]:
        """Each prompt's number and its `n` texts, as they come."""


@dataclass
class Model:
    """The checkpoint that `server` answers with, and its tokenizer. `load` switches to another one."""

    server: SGLangServer
    name: str
    path: Path
    tokenizer: Any
    context: int  # tokens of prompt and answer together

    def load(self) -> None:
        """Give the server this checkpoint's weights; its answers carry the checkpoint's name from here on."""
        self.server.client().update_weights(str(self.path), self.name)

    def prompt_tokens(self, prompt: Prompt) -> int:
        """Tokens of the prompt."""
        return len(self._encode(prompt.text))

    def write(
        self, prompts: Sequence[Prompt], sampling: dict[str, Any], n: int
    ) -> Iterator[tuple[int, list[Generated] | Unanswered]]:
        """`n` texts for each prompt that leaves room for its answer, all at once: the server batches them."""
        ids = [self._encode(p.text) for p in prompts]
        # SGLang refuses, and with it the batch, what fills its context to the last token
        fits = [i for i in range(len(ids)) if len(ids[i]) + sampling["max_new_tokens"] < self.context]
        stop = sorted({s for p in prompts for s in p.stop})
        ending = {"stop": stop, "stop_token_ids": [self.tokenizer.eos_token_id]}
        groups = self.generate([ids[i] for i in fits], {**sampling, **ending}, n) if fits else []
        too_long = Unanswered(f"prompt and answer exceed the context of {self.context} tokens", again=False)
        yield from ((i, too_long) for i in sorted(set(range(len(prompts))) - set(fits)))
        for i, group in zip(fits, groups, strict=True):
            yield i, [self._generated(completion, prompts[i].stop) for completion in group]

    def generate(self, prompts: list[list[int]], sampling: dict[str, Any], n: int) -> list[list[Completion]]:
        """`n` completions of each prompt; a server that dies is started again, with these weights."""
        for attempt in range(TRIES):
            try:
                if attempt:
                    self.server.restart()
                    self.load()
                groups = self.server.client().generate(prompts, sampling, n)
                break
            except ServerDied:
                if attempt == TRIES - 1:
                    raise
        versions = {c.weight_version for group in groups for c in group}
        if any(c.finish_reason == "abort" for group in groups for c in group):
            raise RuntimeError("the server aborted requests; nothing of this batch is kept")
        if versions != {self.name}:
            raise RuntimeError(f"asked for answers of {self.name!r}, the server answered with {versions}")
        return groups

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _generated(self, completion: Completion, stop: tuple[str, ...]) -> Generated:
        text = cut_at_stop(self.tokenizer.decode(completion.output_ids, skip_special_tokens=True), stop)
        return Generated(text, len(completion.output_ids), completion.finish_reason)
