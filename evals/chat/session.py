"""A conversation with one checkpoint, token by token.

In: the turns so far and a question. Out: the answer as text, piece by piece. A tuned model sees the chat form it was
tuned on, with earlier turns before it; a base model continues the question as it stands.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.prompts import CHAT_STOP, chat_prompt, cut_at_stop
from evals.server_config import ServerConfig
from stage import UsageError


@dataclass(frozen=True)
class Turn:
    """A question that was answered."""

    question: str
    answer: str


@dataclass(frozen=True)
class Chat:
    """A checkpoint behind a server. `context` is how many tokens of prompt and answer it can hold."""

    client: Any  # SGLangClient
    tokenizer: Any
    context: int
    max_new_tokens: int
    temperature: float
    base: bool  # not tuned to answer

    def reply(self, turns: Sequence[Turn], question: str) -> Iterator[str]:
        """The answer's text, piece by piece; a piece that was yielded is never taken back.

        Raises UsageError when the question leaves no room for an answer, ServerDied when the server is gone.
        """
        prompt = self.prompt(turns, question)
        stop = () if self.base else CHAT_STOP
        sampling = {
            "temperature": self.temperature,
            "max_new_tokens": min(self.max_new_tokens, self.context - 1 - len(prompt)),
            "stop_token_ids": [self.tokenizer.eos_token_id],
            "stop": list(stop),
        }
        shown = ""
        for written, finished in self.client.stream(prompt, sampling):
            text = cut_at_stop(written, stop)
            text = text if finished else certain(text, stop)
            if len(text) > len(shown):
                yield text[len(shown) :]
                shown = text

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """Token ids of the conversation; the oldest turns are left out where the answer needs their place."""
        prompt = self._encode(question if self.base else chat_prompt(question))
        room = self.context - 1 - len(prompt)  # SGLang refuses what fills its context to the last token
        if room < 1:
            raise UsageError(
                f"the question has {len(prompt)} tokens and the model's context holds {self.context}; ask a shorter one"
            )
        for turn in reversed(() if self.base else turns):
            earlier = [*self._encode(chat_prompt(turn.question)), *self._encode(turn.answer), self._eos]
            if len(earlier) + min(self.max_new_tokens, room) > room:
                break
            prompt, room = earlier + prompt, room - len(earlier)
        return prompt

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    @property
    def _eos(self) -> int:
        return int(self.tokenizer.eos_token_id)


def certain(text: str, stop: Sequence[str]) -> str:
    """`text` without an end that the next token may change: half a character, or the beginning of a stop string."""
    text = text.rstrip("\ufffd")
    for s in stop:
        for n in range(min(len(s) - 1, len(text)), 0, -1):
            if text.endswith(s[:n]):
                return text[:-n]
    return text


@contextmanager
def open_chat(
    checkpoint: Path, config: ServerConfig, log: Path, max_new_tokens: int, temperature: float, base: bool
) -> Iterator[Chat]:
    """Start a server for the Hugging Face folder `checkpoint`, writing to `log`; it ends with the context."""
    from transformers import AutoTokenizer

    from evals.run import context_length
    from evals.server import SGLangServer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    with SGLangServer(checkpoint, config, log) as server:
        yield Chat(server.client(), tokenizer, context_length(checkpoint, config), max_new_tokens, temperature, base)
