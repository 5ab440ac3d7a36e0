"""Turns what is wrong with a profile into one line that names the key, what it got and what would do."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

SHOWN = 60  # characters of a value
FIXED_WORDS = {
    "int_type": "expected an integer",
    "int_parsing": "expected an integer",
    "int_from_float": "expected an integer",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected a string",
    "list_type": "expected a list",
}


def problems(error: ValidationError, profile: type[BaseModel]) -> list[str]:
    """One line for each fault that pydantic found in a profile."""
    return [_problem(e, profile) for e in error.errors(include_url=False)]


def shown(value: object) -> str:
    """A value as an error line shows it: short, and on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def first(lines: list[str]) -> str:
    """The first problem, and how many more there are."""
    return lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")


def _problem(e: ErrorDetails, profile: type[BaseModel]) -> str:
    key, message = ".".join(str(p) for p in e["loc"] if p != "[key]"), " ".join(e["msg"].split())
    match e["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key (got {shown(e['input'])}); {_suggestion(e['loc'], profile)}"
        case "missing":
            return f"{key}: missing, and it has no default"
        case "value_error":
            return _joined(key, message.removeprefix("Value error, "), model_at(profile, e["loc"]))
        case "model_type" | "model_attributes_type" | "dict_type":
            model = model_at(profile, e["loc"])
            keys = f" with keys of {', '.join(model.model_fields)}" if model else ""
            return f"{key}: expected a mapping{keys}, got {shown(e['input'])}"
        case kind:
            wanted = FIXED_WORDS.get(kind) or message.replace("Input should be", "expected")
            return f"{key}: {wanted}, got {shown(e['input'])}"


def _joined(key: str, message: str, model: type[BaseModel] | None) -> str:
    """`grpo` + `clip_eps 2 is …` -> `grpo.clip_eps 2 is …`: a field that the message begins with is named in full."""
    begins_with_field = model is not None and message.split(" ")[0].rstrip(":") in model.model_fields
    if not key:
        return message
    return f"{key}.{message}" if begins_with_field else f"{key}: {message}"


def _suggestion(loc: tuple[int | str, ...], profile: type[BaseModel]) -> str:
    """The key that was probably meant, looked for beside the unknown one, then under it, then everywhere."""
    *above, leaf = loc
    parent = model_at(profile, tuple(above))
    siblings = list(parent.model_fields) if parent else []
    close = get_close_matches(str(leaf), siblings, 1)
    if close:
        return f"did you mean {'.'.join(map(str, [*above, close[0]]))}?"
    prefix = ".".join(str(p) for p in above)
    everywhere = [k for k in _all_keys(profile) if k.rpartition(".")[2] == leaf]
    nearest = sorted(everywhere, key=lambda k: not k.startswith(f"{prefix}."))
    if nearest:
        return f"did you mean {nearest[0]}?"
    return f"keys of {prefix or 'a profile'} are {', '.join(siblings)}"


def model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The section class found at `loc` of a profile; list indices are passed over."""
    here: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int):
            continue
        if here is None or part not in here.model_fields:
            return None
        here = _model_in(here.model_fields[part].annotation)
    return here


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for a in get_args(annotation) if (found := _model_in(a))), None)


def _all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        inner = _model_in(field.annotation)
        is_list = "list" in str(field.annotation) or "dict" in str(field.annotation)
        if inner and not is_list:
            yield from _all_keys(inner, f"{prefix}{name}.")
