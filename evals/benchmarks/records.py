"""A record of somebody's data set as a problem: its fields by name, its choices written out, its gold answer found."""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from evals.extraction import Method, choice_letters, extract_answer
from stage.section import Section

Names = str | tuple[str, ...]  # of a field; of several the first that the record has


class Fields(Section):
    """The names of the record's fields; `messages.0.content` reaches inside. Level and subject only group results."""

    question: Names = "question"
    answer: Names = "answer"
    options: Names | None = None  # of a multiple choice: a list, or a text that holds them all
    level: Names | None = None
    subject: Names | None = None


class Choices(Section):
    """How the options of a multiple choice are put to the model: after the question, `ask`, then (A) ... (B) ..."""

    ask: str = ""
    separator: str = Field("\n", description="between two options")


@dataclass(frozen=True)
class Problem:
    """One question with its gold answer."""

    id: str
    question: str
    gold: str
    level: str | None = None
    subject: str | None = None


def problem_of(number: int, record: dict[str, Any], fields: Fields, choices: Choices, gold: Sequence[Method]) -> Any:
    """The record as a Problem, or the reason (str) why it is none."""
    question, answer = lookup(record, fields.question), lookup(record, fields.answer)
    if question is None:
        return f"no field {_said(fields.question)}"
    if answer is None:
        return f"no field {_said(fields.answer)}"
    text = str(question)
    if fields.options is not None:
        options = lookup(record, fields.options)
        if options is None:
            return f"no field {_said(fields.options)}"
        text = text.strip() + choices.ask + write_options(options, choices.separator)
    found = extract_answer(_answer_text(answer), gold)
    if found is None:
        return f"no gold answer in field {_said(fields.answer)}"
    level, subject = (
        None if (value := lookup(record, n)) is None else str(value) for n in (fields.level, fields.subject)
    )
    return Problem(str(number), text, found, level, subject)


def lookup(record: dict[str, Any], names: Names | None) -> Any:
    """The first of the named fields that holds something; None when none does."""
    for name in (names,) if isinstance(names, str) else names or ():
        value: Any = record
        for key in name.split("."):
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            else:
                value = None
        if value not in (None, "", []):
            return value
    return None


def write_options(options: Any, separator: str) -> str:
    """Options with their letters; those that have them already keep them."""
    if isinstance(options, str):
        return options.strip()
    texts = [str(option).strip() for option in options]
    labelled = all(len(choice_letters(text[:3])) == 1 for text in texts)
    return separator.join(
        texts if labelled else (f"({c}) {t}" for c, t in zip(string.ascii_uppercase, texts, strict=False))
    )


def _answer_text(answer: Any) -> str:
    """The answer as text. A list of one answer is that answer."""
    return str(answer[0] if isinstance(answer, list) and len(answer) == 1 else answer)


def _said(names: Names) -> str:
    return repr(names) if isinstance(names, str) else " or ".join(map(repr, names))
