"""The chat in a terminal: a question a line, the answer as it comes."""

import sys

from evals.chat.session import Chat, Turn
from stage import UsageError

HELP = "Enter asks; /new forgets the conversation; Ctrl-C stops an answer; Ctrl-D ends."


def ask_once(chat: Chat, question: str) -> None:
    """Print the answer to one question."""
    for piece in chat.reply([], question):
        print(piece, end="", flush=True)
    print(flush=True)


def talk(chat: Chat, title: str) -> None:
    """Questions and answers until the end of input."""
    import readline  # noqa: F401  (gives `input` a history and editing keys)

    print(f"{title}\n{HELP}", flush=True)
    turns: list[Turn] = []
    while True:
        try:
            print()
            question = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        except UnicodeDecodeError as error:
            print(f"error: not {error.encoding}: type that again", file=sys.stderr)
            continue
        if question == "/new":
            turns.clear()
        elif question:
            try:
                turns.append(Turn(question, _answer(chat, turns, question)))
            except UsageError as error:
                print(f"error: {error}", file=sys.stderr)


def _answer(chat: Chat, turns: list[Turn], question: str) -> str:
    """Print the pieces of an answer as they come; what was printed."""
    said = ""
    try:
        for piece in chat.reply(turns, question):
            print(piece, end="", flush=True)
            said += piece
    except KeyboardInterrupt:
        print(" (stopped)", end="")
    print(flush=True)
    return said
