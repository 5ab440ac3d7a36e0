"""JSONL files: one object a line, every line named when it is not."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stage.errors import UsageError


def read_jsonl(path: str | Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, in order. Raises UsageError naming file and line for anything else."""
    try:
        file = open(path, "rb")  # noqa: SIM115  (closed below; opening it has an error of its own)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
            except UnicodeDecodeError as error:
                raise UsageError(f"{path}:{number}: not UTF-8 ({error.reason})") from None
            except json.JSONDecodeError as error:
                raise UsageError(f"{path}:{number}: not JSON ({error.msg})") from None
            if not isinstance(record, dict):
                raise UsageError(f"{path}:{number}: expected an object, got {type(record).__name__}")
            yield record


def cut_back_jsonl(path: Path, keep: Callable[[dict[str, Any]], bool] | None = None) -> None:
    """End the file before its first line that is torn or not to be kept: a killed writer's file, before going on.

    Without `keep` no line is parsed.
    """
    if not path.exists():
        return
    end = 0
    with open(path, "rb") as file:
        for line in file:
            if not line.endswith(b"\n") or (keep and not keep(json.loads(line))):
                break
            end += len(line)
    os.truncate(path, end)
