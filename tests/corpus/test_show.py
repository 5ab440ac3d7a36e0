"""`python -m corpus.show` tells the story of a page, whatever became of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpus import mine, show
from tests.corpus.conftest import html_page, warc_record, write_warc


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The demo's crawl with copies, near copies, the same URL again, and a page with a benchmark problem."""
    folder = tmp_path_factory.mktemp("show")
    crawl = folder / "CC-MAIN-2024-10"
    crawl.mkdir()
    problem = json.loads((repository / "examples/benchmarks/gsm8k.jsonl").read_text().splitlines()[4])
    maths = json.loads((repository / "examples/seed.jsonl").read_text().splitlines()[0])["text"].replace("<", "&lt;")
    long = " ".join(f"word{i}" for i in range(400))
    records = [
        warc_record("http://a.org/one", html_page(long)),
        warc_record("http://d.org/two", html_page("this and that " * 20)),
        warc_record("http://d.org/two?utm_source=x", html_page("something else " * 20)),
        warc_record("http://b.org/copy", html_page(long.upper())),
        warc_record("http://c.org/near", html_page(long.replace("word200 ", "other "))),
        warc_record("http://leak.org/gsm8k", html_page(maths + "</p><p>" + problem["question"])),
    ]
    write_warc(crawl / "extra.warc.gz", records)
    arguments = ["--input", str(repository / "examples/pages.warc.gz"), str(crawl / "extra.warc.gz")]
    assert mine.main([*arguments, "--output", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def told(run: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def tell(name: str, *options: str) -> str:
        assert show.main(["--run", str(run), *options, name]) == 0
        return capsys.readouterr().out

    return tell


def entries(run: Path, fate: str) -> list[dict[str, Any]]:
    ledger = (run / "corpus/ledger.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, ledger) if e["fate"] == fate]


def test_a_kept_page(run: Path, told: Callable[..., str]) -> None:
    entry = entries(run, "collected")[0]
    story = told(entry["id"], "--characters", "0")
    assert f"URL:      {entry['url']}\n" in story
    assert f"{entry['file']}, offset {entry['offset']}" in story
    assert "kept; collected first in round" in story
    assert "round 1:" in story and "language: " in story
    pages = map(json.loads, (run / "corpus/pages.jsonl").read_text().splitlines())
    assert next(p["text"] for p in pages if p["url"] == entry["url"]) in story


def test_the_documents_file_leads_back_to_the_record(run: Path, told: Callable[..., str]) -> None:
    """From a document of the shard to the bytes of its archive."""
    from fastwarc.warc import ArchiveIterator

    lines = (run / "corpus/shards/deepseekmath_corpus.documents.jsonl").read_text().splitlines()
    for document in [json.loads(line) for line in lines][:5]:
        with open(document["file"], "rb") as archive:
            archive.seek(document["offset"])
            assert next(iter(ArchiveIterator(archive))).headers["WARC-Target-URI"] == document["url"]
        assert document["round"] in range(1, 5)
        assert f"round {len(document['scores'])}:  scored {document['scores'][-1]:.4f}" in told(document["id"])


def test_duplicates_name_the_page_that_stays(told: Callable[..., str]) -> None:
    assert "near-duplicate of" in told("http://c.org/near")
    assert "near-duplicate of" in told("https://www.c.org/near/#top")  # the same page, spelt otherwise
    assert ", http://a.org/one" in told("http://c.org/near")
    assert "duplicate text of" in told("http://b.org/copy")
    assert "duplicate URL of" in told("http://d.org/two")  # both pages with this address are shown


def test_a_contaminated_page_names_benchmark_problem_and_ngram(run: Path, told: Callable[..., str]) -> None:
    story = told("http://leak.org/gsm8k")
    (match,) = [e for e in entries(run, "contaminated") if "leak.org" in e["url"]]
    assert f"dropped: contains problem 4 of gsm8k: “{match['ngram']}”" in story
    assert "crawl:    CC-MAIN-2024-10\n" in story


def test_a_page_below_the_cut(run: Path, told: Callable[..., str]) -> None:
    entry = entries(run, "below the cut")[0]
    story = told(entry["id"], "--characters", "40")
    assert "dropped: below the cut of the last round" in story
    assert "not collected, cut " in story
    assert "characters more" in story


@pytest.mark.parametrize(
    ("name", "message"), [("http://nowhere.org", "has no such page"), ("ffff", "has no such page")]
)
def test_an_unknown_page_is_one_line(run: Path, capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    assert show.main(["--run", str(run), name]) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_corpus_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main(["--run", str(tmp_path), "x"]) == 2
    assert "no published corpus in" in capsys.readouterr().err


@pytest.mark.parametrize("spoil", ["no ledger", "a ledger of other keys", "half a line"])
def test_what_another_version_published_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: str
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "manifest.json").write_text('{"metrics": {"rounds": []}}')
    (corpus / "pages.jsonl").write_text('{"url": "http://a.org", "text": "x"}\n')
    if spoil != "no ledger":
        (corpus / "ledger.jsonl").write_text(
            '{"url": "http://a.org"}\n' if spoil == "a ledger of other keys" else '{"u'
        )
    assert show.main(["--run", str(tmp_path), "http://a.org"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --run: {corpus} is not as this version publishes it")
    assert error.count("\n") == 1
