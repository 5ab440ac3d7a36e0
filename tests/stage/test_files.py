"""Files are whole or absent, and JSONL says which line is not."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stage import UsageError, atomic_write, read_jsonl, sha256_file

WRITER = """
import sys
from stage import atomic_write
for i in range(10**9):
    atomic_write(sys.argv[1], str(i % 10) * 200_000)
"""


def test_a_writer_killed_at_any_instant_leaves_a_whole_file(tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "state.json"
    for pause in (0.0, 0.003, 0.011):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=repository)
        while not path.exists():
            time.sleep(0.01)
        seen = [path.read_text() for _ in range(20)]
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        for text in [*seen, path.read_text()]:
            assert len(text) == 200_000
            assert set(text) == {text[0]}


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    atomic_write(path, "old")
    with pytest.raises(UnicodeEncodeError):
        atomic_write(path, "\ud800")  # a lone surrogate has no UTF-8
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["state.json"]


def test_sha256_is_of_the_bytes(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", b"\x00\xff")
    assert sha256_file(tmp_path / "a") == hashlib.sha256(b"\x00\xff").hexdigest()


def test_jsonl_records_come_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": "一"}\n{"x": 2}', encoding="utf-8")
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [{"x": "一"}, {"x": 2}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"x": 1}\n{"x": ', ":2: not JSON (Expecting value)"),
        ('{"x": 1}\n[1]\n', ":2: expected an object, got list"),
        ("7\n", ":1: expected an object, got int"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        list(read_jsonl(path))
    assert str(error.value) == f"{path}{message}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        list(read_jsonl(tmp_path / "none.jsonl"))
    assert str(error.value) == f"{tmp_path / 'none.jsonl'}: cannot be read (No such file or directory)"
