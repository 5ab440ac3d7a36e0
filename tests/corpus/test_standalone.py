"""`python -m corpus.mine --input … --output … --profile …`: mining without a pipeline's run directory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.mine import main
from tests.corpus.conftest import write_warc


def mine(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "corpus.mine", *arguments]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True)


def test_a_profile_is_tried_on_other_pages_than_its_own(repository: Path, shared_data: Path, tmp_path: Path) -> None:
    """On the broken and unusual archives: nothing ends the run, and every record is counted."""
    done = mine(repository, "--input", str(shared_data / "warc/odd/*"), "--output", str(tmp_path / "odd"))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "odd/corpus/manifest.json").read_text())
    mined = json.loads((tmp_path / "odd/corpus/mixture.json").read_text())["sources"][0]
    counts, rounds = manifest["counts"], manifest["metrics"]["rounds"]
    assert counts["in"] == counts["out"] + sum(counts["dropped"].values())
    assert counts["dropped"]["broken archive"] > 0
    assert counts["dropped"]["not HTML"] > 0
    assert mined["documents"] == rounds[-1]["pages"] > 20
    table = [line.split() for line in done.stdout.splitlines() if line.strip().startswith(("round  ", "1 ", "2 "))]
    assert [row[:2] for row in table] == [["round", "pages"], *([str(r["round"]), str(r["pages"])] for r in rounds)]
    assert "recall is not measured" in done.stdout


def test_a_crawl_without_a_page_ends_with_its_counts_and_one_line(repository: Path, tmp_path: Path) -> None:
    crawl = write_warc(
        tmp_path / "empty.warc.gz", [b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n"]
    )
    done = mine(repository, "--input", str(crawl), "--output", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "corpus: 1 records: 0 pages, 1 no page: warcinfo record" in done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: corpus.inputs: no usable page in {crawl}"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("small", "--profile: no profile 'small'; there are 1.3b"),
        ("corpus: {nonsense: 1}\ntokenizer: t\n", "corpus.nonsense: Extra inputs"),
        ("corpus: {dedup: {bands: 7}}\ntokenizer: t\n", "corpus.dedup: num_perm 128 is not a multiple of bands 7"),
        ("- a list\n", "expected a mapping with the keys corpus and tokenizer"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_wrong_profile_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], profile: str, message: str
) -> None:
    (tmp_path / "p.yaml").write_text(profile)
    name = profile if profile == "small" else str(tmp_path / "p.yaml")
    assert main(["--input", "x", "--output", str(tmp_path / "o"), "--profile", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line
    assert not (tmp_path / "o").exists()


def test_a_run_of_the_pipeline_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"stages": {"corpus": {}, "pretrain": {}}}))
    assert main(["--input", "x", "--output", str(tmp_path)]) == 2
    assert f"mine in it with --run-dir {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--input", "x"], ["--run-dir", "r", "--input", "x", "--output", "o"]])
def test_the_two_ways_to_start_exclude_each_other(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "either --run-dir, or --input and --output" in capsys.readouterr().err
