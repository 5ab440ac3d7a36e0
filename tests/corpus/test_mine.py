"""The whole stage on the example crawl, with a planted contamination and broken records among its input."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpus.mine import main
from tests.corpus.conftest import html_page, warc_record, write_warc

MakeRun = Callable[[dict[str, Any]], Path]


def planted(repository: Path) -> bytes:
    """A page of mathematics, as the seed's first text, that repeats a GSM8K problem."""
    problem = json.loads((repository / "examples/benchmarks/gsm8k.jsonl").read_text().splitlines()[4])
    text = json.loads((repository / "examples/seed.jsonl").read_text().splitlines()[0])["text"]
    return html_page(text.replace("<", "&lt;") + "</p><p>" + problem["question"].upper().replace(" ", "  "))


@pytest.fixture
def profile(tiny_profile: dict[str, Any], repository: Path, tmp_path: Path) -> dict[str, Any]:
    records = [
        warc_record("http://leak.org/gsm8k.html", planted(repository)),
        warc_record("http://leak.org/x.pdf", b"%PDF", b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n"),
    ]
    tiny_profile["corpus"]["inputs"].append(str(write_warc(tmp_path / "extra.warc.gz", records)))
    return tiny_profile


def command(run: Path) -> list[str]:
    return [sys.executable, "-m", "corpus.mine", "--run-dir", str(run)]


def test_the_stage_mines_decontaminates_and_publishes(
    profile: dict[str, Any], make_run: MakeRun, repository: Path
) -> None:
    run = make_run(profile)
    subprocess.run(command(run), check=True, cwd=repository)
    output = run / "corpus"
    manifest = json.loads((output / "manifest.json").read_text())
    mixture = json.loads((output / "mixture.json").read_text())

    counts = manifest["counts"]
    assert counts["in"] == counts["out"] + sum(counts["dropped"].values())
    assert counts["dropped"]["duplicate URL"] == 2
    assert counts["dropped"]["not HTML"] == 1
    assert counts["dropped"]["deepseekmath_corpus: contaminated by gsm8k"] == 1
    (leak,) = [json.loads(line) for line in (output / "contaminated.jsonl").read_text().splitlines()]
    assert (leak["benchmark"], leak["problem"]) == ("gsm8k", "4")
    assert len(leak["ngram"].split()) == 10

    first, second = manifest["metrics"]["rounds"]
    assert {"pages", "tokens", "new_domains", "overlap", "recall"} <= first.keys()
    assert first["overlap"] == 0.0
    assert "doc.sagemath.org" in first["new_domains"]  # a site the seed knows nothing of
    assert second["seed_pages_added"] > 0
    assert second["recall"] > first["recall"]
    assert second["held_out_auc"] > 0.8

    check_shards(output, mixture, counts["out"])
    read = {Path(i["path"]).name for i in manifest["inputs"]}
    assert {"pages.warc.gz", "extra.warc.gz", "seed.jsonl", "gsm8k.jsonl", "arxiv.jsonl", "known_pages.txt"} <= read


def check_shards(output: Path, mixture: dict[str, Any], documents: int) -> None:
    """Megatron reads every shard; each document ends with the end-of-document token; the counts are exact."""
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from transformers import AutoTokenizer

    assert [s["weight"] for s in mixture["sources"]] == [0.56, 0.04, 0.10, 0.20, 0.10]
    assert sum(s["documents"] for s in mixture["sources"]) == documents
    for source in mixture["sources"]:
        shard = IndexedDataset(str(output / source["prefix"]))
        assert (len(shard), int(shard.sequence_lengths.sum())) == (source["documents"], source["tokens"])
        assert all(shard[i][-1] == mixture["eod"] for i in range(len(shard)))
    for source in mixture["sources"]:
        lines = (output / f"{source['prefix']}.documents.jsonl").read_text().splitlines()
        shard = IndexedDataset(str(output / source["prefix"]))
        assert [json.loads(line)["tokens"] for line in lines] == shard.sequence_lengths.tolist()
    mined = IndexedDataset(str(output / mixture["sources"][0]["prefix"]))
    tokenizer = AutoTokenizer.from_pretrained(mixture["tokenizer"])
    texts = [tokenizer.decode(mined[i][:-1]) for i in range(len(mined))]
    assert sum(r"\(" in t or r"\[" in t for t in texts) > 0.7 * len(texts)


def test_killed_and_restarted_in_another_order_it_gives_the_same_bytes(
    profile: dict[str, Any], make_run: Callable[..., Path], repository: Path
) -> None:
    whole = make_run(profile, "whole")
    assert main(["--run-dir", str(whole)]) == 0
    profile["corpus"]["inputs"].reverse()
    killed = make_run(profile, "killed")
    process = subprocess.Popen(command(killed), cwd=repository)
    while not (killed / ".work/corpus/rounds/1/classifier.bin").exists():
        assert process.poll() is None, "the stage ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (killed / "corpus").exists()
    assert main(["--run-dir", str(killed)]) == 0
    files = sorted(p.relative_to(whole) for p in (whole / "corpus").rglob("*") if p.is_file())
    compared = [f for f in files if f.name not in ("manifest.json", "pages.jsonl", "ledger.jsonl")]
    assert len(compared) >= 15
    for file in compared:
        assert (killed / file).read_bytes() == (whole / file).read_bytes(), file


def test_each_page_has_its_story_in_the_ledger(profile: dict[str, Any], make_run: MakeRun) -> None:
    profile["corpus"]["rounds"]["max_rounds"] = 1
    profile["corpus"]["classifier"]["epochs"] = 5
    run = make_run(profile)
    assert main(["--run-dir", str(run)]) == 0
    ledger = [json.loads(line) for line in (run / "corpus/ledger.jsonl").read_text().splitlines()]
    pages = (run / "corpus/pages.jsonl").read_text().splitlines()
    assert len(ledger) == len(pages) == 109
    assert {e["fate"] for e in ledger} == {"collected", "contaminated", "below the cut", "duplicate URL"}
    assert {e["language"] for e in ledger} >= {"en", "zh"}
    kept = [e["scores"][0] for e in ledger if e["fate"] in ("collected", "contaminated")]
    assert {e["round"] for e in ledger if e["fate"] == "collected"} == {1}
    assert min(kept) >= max(e["scores"][0] for e in ledger if e["fate"] == "below the cut")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": ["/nowhere/*.warc.gz"]}, "corpus.inputs: no file matches '/nowhere/*.warc.gz'"),
        ({"seed": {"path": "/nowhere/seed.jsonl"}}, "no such file or folder: /nowhere/seed.jsonl"),
        ({"seed": {"text_key": "body"}}, "holds no text (key 'body')"),
        ({"rounds": {"token_budgets": [10]}}, "round 1 collects no page"),
        ({"rounds": {"known_pages": "/nowhere/known.txt"}}, "/nowhere/known.txt does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tiny_profile: dict[str, Any],
    make_run: MakeRun,
    capfd: pytest.CaptureFixture[str],
    change: dict[str, Any],
    message: str,
) -> None:
    tiny_profile["corpus"]["classifier"]["epochs"] = 1
    for key, value in change.items():
        section = tiny_profile["corpus"][key]
        tiny_profile["corpus"][key] = {**section, **value} if isinstance(value, dict) else value
    run = make_run(tiny_profile)
    assert main(["--run-dir", str(run)]) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert not (run / "corpus").exists()


def test_help_imports_nothing_heavy_and_the_stage_never_imports_torch(repository: Path) -> None:
    script = (
        "import sys, corpus.mine\n"
        "heavy = {'numpy', 'fasttext', 'fastwarc', 'resiliparse', 'tokenizers', 'pydantic'} & set(sys.modules)\n"
        "import corpus.crawl, corpus.mixture, corpus.rounds, corpus.seed\n"
        "sys.exit(str(heavy or {'torch'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True)
    assert done.stderr.strip() == ""
