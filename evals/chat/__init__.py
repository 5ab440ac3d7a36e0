"""Talking to a checkpoint: one SGLang server behind a prompt in the terminal or a small page."""

from evals.chat.session import Chat, Turn, open_chat

__all__ = ["Chat", "Turn", "open_chat"]
