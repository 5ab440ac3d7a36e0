"""Texts of the sources and the seed, from every kind of file."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from corpus.texts import local_files, read_texts
from stage import UsageError

ROWS = [{"text": "one"}, {"text": "two"}, {"text": ""}, {"other": 1}]


def read(path: Path, key: str = "text") -> tuple[list[str], Counter[str]]:
    dropped: Counter[str] = Counter()
    return list(read_texts(str(path), key, lambda reason: dropped.update([reason]))), dropped


def test_jsonl_plain_and_compressed_with_bad_lines(tmp_path: Path) -> None:
    lines = "".join(json.dumps(r) + "\n" for r in ROWS) + "{broken\n[1]\n"
    (tmp_path / "a.jsonl").write_text(lines)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as f:
        f.write(lines)
    for name in ("a.jsonl", "a.jsonl.gz"):
        texts, dropped = read(tmp_path / name)
        assert texts == ["one", "two"]
        assert dropped == {"no text": 2, "not a JSON object": 2}


def test_parquet_and_saved_datasets(tmp_path: Path) -> None:
    from datasets import Dataset

    dataset = Dataset.from_list([{"body": "one"}, {"body": "two"}])
    dataset.to_parquet(tmp_path / "folder" / "a.parquet")
    dataset.save_to_disk(tmp_path / "saved")
    for place in (tmp_path / "folder" / "a.parquet", tmp_path / "folder", tmp_path / "saved"):
        assert read(place, "body") == (["one", "two"], Counter())


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        local_files(str(tmp_path / "none.jsonl"))
