"""Texts from files: JSONL (plain or gzip) read directly, everything else (parquet, dataset folders) by `datasets`.

Comes in: a path and the key of the text. Goes out: the texts in order; a record without a usable text is reported to
`drop(reason)`.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from stage import UsageError

JSONL = (".jsonl", ".jsonl.gz")


def read_texts(path: str, key: str, drop: Callable[[str], None]) -> Iterator[str]:
    """The texts of `path`: a .jsonl, .jsonl.gz or .parquet file, a folder of such files, or a saved dataset."""
    records = _jsonl(path, drop) if path.endswith(JSONL) else _dataset(path)
    for record in records:
        text = record.get(key)
        if isinstance(text, str) and text.strip():
            yield text
        else:
            drop("no text")


def local_files(path: str) -> list[Path]:
    """The files behind a path, for the manifest; an error when there is nothing."""
    place = Path(path)
    files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise UsageError(f"no such file or folder: {path}")
    return files


def _jsonl(path: str, drop: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as f:
        for line in f:
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                yield record
            else:
                drop("not a JSON object")


def _dataset(path: str) -> Iterator[dict[str, Any]]:
    from datasets import load_dataset, load_from_disk

    place = Path(path)
    if (place / "state.json").is_file() or (place / "dataset_dict.json").is_file():
        saved = load_from_disk(path)
        return chain.from_iterable(saved.values()) if isinstance(saved, dict) else iter(saved)
    try:
        if place.is_dir():
            return iter(load_dataset(path, split="train", streaming=True))
        return iter(load_dataset("parquet", data_files=path, split="train", streaming=True))
    except (ValueError, OSError) as error:
        raise UsageError(f"{path}: `datasets` cannot read it: {str(error).splitlines()[0]}") from None
