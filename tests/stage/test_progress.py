"""Progress: rate, ETA, plain lines where there is no terminal, a file that `pipeline.status` reads."""

import json
import time
from pathlib import Path

import pytest

from stage import Progress
from stage import progress as module
from stage.progress import duration


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0:00"), (75, "1:15"), (3675, "1:01:15"), (360000, "100:00:00")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_rate_and_eta_count_only_what_this_process_did() -> None:
    progress = Progress("train", total=100, start=50, quiet=True)
    assert progress.eta_seconds is None
    progress._began = time.monotonic() - 10
    progress.update(20)
    assert progress.rate == pytest.approx(2, rel=0.01)
    assert progress.eta_seconds == pytest.approx(15, rel=0.01)


def test_without_a_total_there_is_no_eta(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("read", total=None, unit="pages") as progress:
        progress.update(3)
        assert progress.eta_seconds is None
    assert capsys.readouterr().err.startswith("read: 3 pages, ")


def test_plain_lines_come_now_and_then_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("train", total=4, unit="steps") as progress:
        progress.update(1)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(module, "PLAIN_LINE_SECONDS", 0.0)
        progress.update(1, loss="2.31")
        line = capsys.readouterr().err
    assert line.startswith("train: 2/4 steps, ")
    assert ", ETA 0:00  loss 2.31\n" in line
    assert ", done" in capsys.readouterr().err


def test_a_failure_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), Progress("train", total=4):
        raise KeyError
    assert ", failed" in capsys.readouterr().err


def test_the_file_holds_the_last_state(tmp_path: Path) -> None:
    with Progress("train", total=4, unit="steps", file=tmp_path / "progress.json", quiet=True) as progress:
        assert json.loads((tmp_path / "progress.json").read_text())["done"] == 0
        progress.update(2, loss=1.5)
        progress.update(1)
    state = json.loads((tmp_path / "progress.json").read_text())
    assert (state["description"], state["done"], state["total"], state["unit"]) == ("train", 3, 4, "steps")
    assert state["fields"] == {"loss": "1.5"}
    assert state["rate"] > 0
