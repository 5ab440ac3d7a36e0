"""Input that cannot be used ends the stage with exit code 2 and one line that names the file and the record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from corpus.mine import main
from tests.corpus.conftest import warc_record, write_warc

MakeRun = Callable[..., Path]
Corpus = dict[str, Any]


def not_an_archive(corpus: Corpus, folder: Path) -> str:
    (folder / "folder.warc.gz").mkdir()
    corpus["inputs"].append(str(folder / "folder.warc.gz"))
    return "folder.warc.gz"


def benchmark_without_its_field(corpus: Corpus, folder: Path) -> str:
    lines = [{"question": "How many eggs?", "answer": "16"}, {"question": "How many ducks?"}]
    (folder / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus["decontamination"]["benchmarks"][0]["path"] = str(folder / "b.jsonl")
    return f"{folder}/b.jsonl:2: benchmark 'gsm8k' expects the key 'answer' in every problem"


def seed_without_a_positive(corpus: Corpus, folder: Path) -> str:
    (folder / "seed.jsonl").write_text('{"text": ""}\n{"body": "a text under another key"}\nno JSON\n')
    corpus["seed"] = {"path": str(folder / "seed.jsonl")}
    return f"{folder}/seed.jsonl holds no text (key 'text'); skipped {{'no text': 2, 'not a JSON object': 1}}"


def annotation_of_an_unknown_domain(corpus: Corpus, folder: Path) -> str:
    rules = [
        {"domain": "doc.sagemath.org", "path": "/", "keep": True},
        {"domain": "nowhere.org", "path": "/", "keep": True},
    ]
    (folder / "annotations.yaml").write_text(yaml.safe_dump(rules))
    corpus["rounds"]["annotations"] = str(folder / "annotations.yaml")
    return f"{folder}/annotations.yaml: entry 2: the crawl has no page of domain 'nowhere.org'"


def crawl_without_a_page(corpus: Corpus, folder: Path) -> str:
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"
    corpus["inputs"] = [str(write_warc(folder / "e.warc.gz", [warc_record("http://a.org", b"gone", head)]))]
    return f"corpus.inputs: no usable page in {folder}/e.warc.gz"


def crawl_of_no_bytes(corpus: Corpus, folder: Path) -> str:
    (folder / "e.warc.gz").touch()
    corpus["inputs"] = [str(folder / "e.warc.gz")]
    return f"corpus.inputs: no usable page in {folder}/e.warc.gz"


def known_pages_that_are_no_text(corpus: Corpus, folder: Path) -> str:
    (folder / "known.txt").write_bytes(b"\xff\xfe\x00")
    corpus["rounds"]["known_pages"] = str(folder / "known.txt")
    return f"corpus.rounds.known_pages: {folder}/known.txt is not UTF-8"


@pytest.mark.parametrize(
    "spoil",
    [
        not_an_archive,
        benchmark_without_its_field,
        seed_without_a_positive,
        annotation_of_an_unknown_domain,
        crawl_without_a_page,
        crawl_of_no_bytes,
        known_pages_that_are_no_text,
    ],
)
def test_bad_input_is_one_line_that_names_it(
    tiny_profile: dict[str, Any],
    make_run: MakeRun,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    spoil: Callable[[Corpus, Path], str],
) -> None:
    message = spoil(tiny_profile["corpus"], tmp_path)
    run = make_run(tiny_profile)
    assert main(["--run-dir", str(run), "--workers", "1"]) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith(("error", "Traceback"))]
    assert len(errors) == 1
    assert message in errors[0]
    assert not (run / "corpus").exists()
