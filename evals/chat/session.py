"""A conversation with one checkpoint, token by token.

In: the turns so far and a question. Out: the answer as text, piece by piece. A tuned model sees the chat form it was
tuned on, with earlier turns before it; a base model continues the question as it stands. With a sandbox the model may
write programs: each runs when its block is closed, and the model goes on below what it printed (evals/tools.py).
"""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.prompts import CHAT_STOP, TOOL_INSTRUCTIONS, chat_prompt, cut_at_stop
from evals.sandbox import Sandbox, SandboxFailed
from evals.server_config import ServerConfig
from evals.tools import OUTPUT, Trajectory, programs, session, shown
from stage import UsageError

MAX_ROUNDS = 4  # as in evals.config.BenchmarkRun
_CHINESE = re.compile("[\u4e00-\u9fff]")


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
    sandbox: Sandbox | None = None

    def reply(self, turns: Sequence[Turn], question: str) -> Iterator[str]:
        """The answer's text, piece by piece; a piece that was yielded is never taken back.

        Raises UsageError when the question leaves no room for an answer, ServerDied when the server is gone.
        """
        prompt, said = self.prompt(turns, question), Trajectory("")
        for _ in range(MAX_ROUNDS if self.sandbox else 1):
            said.text += yield from self._round(prompt + self._encode(said.text))
            if self.sandbox is None or not said.waits:
                return
            said.executions.append(self.sandbox.run(session(programs(said.text))))
            printed = f"{OUTPUT}\n{shown(said.executions[-1])}\n```\n"
            piece = printed if said.text.endswith("\n") else f"\n{printed}"
            yield piece
            said.text += piece

    def _round(self, prompt: list[int]) -> Generator[str, None, str]:
        """The text after `prompt`, piece by piece, to its end or to the output of a program; all of it."""
        stop = (*(() if self.base else CHAT_STOP), *((OUTPUT,) if self.sandbox else ()))
        room = self.context - 1 - len(prompt)
        if room < 1:
            return ""
        sampling = {
            "temperature": self.temperature,
            "max_new_tokens": min(self.max_new_tokens, room),
            "stop_token_ids": [self.tokenizer.eos_token_id],
            "stop": list(stop),
        }
        yielded = ""
        for written, finished in self.client.stream(prompt, sampling):
            text = cut_at_stop(written, stop)
            text = text if finished else certain(text, stop)
            if len(text) > len(yielded):
                yield text[len(yielded) :]
                yielded = text
        return yielded

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """Token ids of the conversation; the oldest turns are left out where the answer needs their place."""
        prompt = self._encode(question if self.base else self._asked(question))
        room = self.context - 1 - len(prompt)  # SGLang refuses what fills its context to the last token
        if room < 1:
            raise UsageError(
                f"the question has {len(prompt)} tokens and the model's context holds {self.context}; ask a shorter one"
            )
        for turn in reversed(() if self.base else turns):
            earlier = [*self._encode(self._asked(turn.question)), *self._encode(turn.answer), self._eos]
            if len(earlier) + min(self.max_new_tokens, room) > room:
                break
            prompt, room = earlier + prompt, room - len(earlier)
        return prompt

    def _asked(self, question: str) -> str:
        """The chat form of a question; with tools the instruction to use them, in the question's language."""
        if self.sandbox is None:
            return chat_prompt(question)
        return chat_prompt(question, TOOL_INSTRUCTIONS["zh" if _CHINESE.search(question) else "en"])

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
    checkpoint: Path,
    config: ServerConfig,
    log: Path,
    max_new_tokens: int,
    temperature: float,
    base: bool,
    tools: bool = False,
) -> Iterator[Chat]:
    """Start a server for the Hugging Face folder `checkpoint`, writing to `log`; it ends with the context.

    With `tools` there is a sandbox for the model's programs. Raises UsageError where this machine can give none.
    """
    from transformers import AutoTokenizer

    from evals.run import context_length
    from evals.server import SGLangServer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    context = context_length(checkpoint, config)
    with ExitStack() as running:
        sandbox = None
        if tools:
            try:
                sandbox = running.enter_context(Sandbox(workers=1))
            except SandboxFailed as error:
                raise UsageError(f"--tools: {error}") from None
        client = running.enter_context(SGLangServer(checkpoint, config, log)).client()
        yield Chat(client, tokenizer, context, max_new_tokens, temperature, base, sandbox)
