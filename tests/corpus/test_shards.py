"""Reading file by file: whoever reads, in whatever order, finds the same; a killed run redoes only its file."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpus.config import CorpusConfig
from corpus.merge import read_crawl
from corpus.mine import main
from corpus.pages import PageStore
from corpus.share import parse_share
from stage import Stage, UsageError
from tests.corpus.conftest import html_page, warc_record, write_warc

MakeRun = Callable[..., Path]
WORDS = [f"word{i}" for i in range(500)]


@pytest.fixture
def profile(tiny_profile: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Four archives that repeat one another's pages, exactly and nearly."""
    files = []
    for number in range(4):
        records = [warc_record(f"http://own{number}.org/{i}", html_page(_text(10 * number + i))) for i in range(30)]
        records += [warc_record(f"http://copy{number}.org/{i}", html_page(_text(i).upper())) for i in range(5)]
        near = [_text(20 + i).replace("word7 ", "other ") for i in range(5)]
        records += [warc_record(f"http://near{number}.org/{i}", html_page(t)) for i, t in enumerate(near)]
        records += [warc_record("http://same.org/", html_page(_text(90))), warc_record("ftp://x", b"")]
        files.append(str(write_warc(tmp_path / f"{number}.warc.gz", records)))
    tiny_profile["corpus"]["inputs"] = files
    return tiny_profile


def _text(number: int) -> str:
    return " ".join(WORDS[(number * 37 + i * (number % 7 + 1)) % len(WORDS)] for i in range(300))


def story(run: Path, profile: dict[str, Any], workers: int) -> dict[tuple[str, int], tuple[Any, ...]]:
    """What becomes of every record, and the counts."""
    stage = Stage("corpus", run)
    with PageStore(stage.work / "pages.jsonl") as store:
        crawl, origin = read_crawl(stage, CorpusConfig.model_validate(profile["corpus"]), store, workers)
        pages = [store[n] for n in range(len(store))]
    fates: dict[tuple[str, int], tuple[Any, ...]] = {}
    for number, page in enumerate(pages):
        reason, kept = origin.duplicates.get(number, ("unique", number))
        fates[page.file, page.offset] = (page.key, origin.languages[number], reason, pages[kept].url)
    fates["counts", 0] = (stage.counts["in"], dict(stage.counts["dropped"]), [pages[n].url for n in crawl.numbers])
    return fates


def test_workers_shares_and_the_order_of_files_change_nothing(profile: dict[str, Any], make_run: MakeRun) -> None:
    one = story(make_run(profile, "one"), profile, workers=1)
    assert {fate[2] for key, fate in one.items() if key[0] != "counts"} == {
        "unique",
        "duplicate URL",
        "duplicate text",
        "near-duplicate",
    }
    assert story(make_run(profile, "two"), profile, workers=2) == one
    profile["corpus"]["inputs"].reverse()
    shared = make_run(profile, "shared")
    for share in ("1/2", "0/2"):
        assert main(["--run-dir", str(shared), "--share", share, "--workers", "1"]) == 0
    marks = {mark: mark.stat().st_mtime_ns for mark in shared.glob(".work/corpus/read/*/done.json")}
    assert len(marks) == 4
    assert story(shared, profile, workers=1) == one
    assert marks == {mark: mark.stat().st_mtime_ns for mark in marks}  # nothing was read again


def test_a_killed_run_redoes_only_the_file_it_was_reading(
    profile: dict[str, Any], make_run: MakeRun, repository: Path, tmp_path: Path
) -> None:
    large = tmp_path / "3.warc.gz"  # long enough to be killed in
    records = [warc_record(f"http://l.org/{i}", html_page(_text(i) * 20)) for i in range(250)]
    write_warc(large, records)
    whole = story(make_run(profile, "whole"), profile, workers=1)
    run = make_run(profile)
    arguments = ["--run-dir", str(run), "--share", "0/1", "--workers", "1"]
    process = subprocess.Popen([sys.executable, "-m", "corpus.mine", *arguments], cwd=repository)
    while len(list(run.glob(".work/corpus/read/*/done.json"))) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    marks = {mark: mark.stat().st_mtime_ns for mark in run.glob(".work/corpus/read/*/done.json")}
    assert len(marks) == 3
    assert main(arguments) == 0
    assert story(run, profile, workers=1) == whole
    assert marks == {mark: mark.stat().st_mtime_ns for mark in marks}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_cannot_be_read_is_one_line(profile: dict[str, Any], make_run: MakeRun, workers: int) -> None:
    run = make_run(profile)
    stage = Stage("corpus", run)
    config = CorpusConfig.model_validate(profile["corpus"])
    folder = Path(config.inputs[2])
    folder.unlink()
    folder.mkdir()  # opens for nobody, root included
    with PageStore(stage.work / "pages.jsonl") as store, pytest.raises(UsageError, match=r"2\.warc\.gz"):
        read_crawl(stage, config, store, workers)


def test_a_share_needs_a_planned_run_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run-dir", str(tmp_path), "--share", "0/2"]) == 2
    assert "is not planned; `python -m pipeline.plan" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["3", "3/3", "-1/3", "a/b", ""])
def test_shares_are_numbered_from_zero(text: str) -> None:
    assert parse_share("2/3") == (2, 3)
    with pytest.raises(ValueError):
        parse_share(text)
