"""Extraction and classifier inside a pipeline of the real datatrove, run by its executor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("datatrove", reason="needs the extra `datatrove`")

SCRIPT = """
import sys
from pathlib import Path
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.writers import JsonlWriter
from corpus.classifier import interleave, train
from corpus.config import ClassifierConfig, ReadConfig
from corpus.crawl import extract_pages
from corpus.datatrove_steps import ReadPages, ScorePages
from corpus.texts import read_texts

if __name__ == "__main__":
    out, examples = Path(sys.argv[1]), Path("examples")
    seed = list(read_texts(str(examples / "seed.jsonl"), "text", lambda reason: None))
    pages = [t for _, t in extract_pages(str(examples / "pages.warc.gz"), ReadConfig(), lambda reason: None)][::3]
    config = ClassifierConfig(dim=16, epochs=30, bucket=20000, threads=1)
    model = train(interleave(seed, pages, len(pages)), config, 1, out / "classifier.bin").model
    least = float(sorted(model.score(pages))[len(pages) // 2])
    (out / "least").write_text(str(least))
    LocalPipelineExecutor(
        pipeline=[
            ReadPages([str(examples / "*.warc.gz")]),
            ScorePages(out / "classifier.bin", least),
            JsonlWriter(str(out / "scored"), compression=None),
        ],
        tasks=1,
        logging_dir=str(out / "logs"),
    ).run()
"""


def test_the_steps_run_under_datatroves_executor(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=repository,
        env={"PYTHONPATH": str(repository), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kept = [json.loads(line) for f in (tmp_path / "scored").glob("*.jsonl") for line in f.read_text().splitlines()]
    least = float((tmp_path / "least").read_text())
    assert 10 < len(kept) < 90
    assert all(d["metadata"]["score"] >= least and d["metadata"]["url"].startswith("http") for d in kept)
    assert {"file", "offset", "language"} <= kept[0]["metadata"].keys()
    stats = json.loads(next((tmp_path / "logs").rglob("stats.json")).read_text())
    assert stats[0]["stats"]["page"] == 108
    assert (tmp_path / "logs/completions/00000").is_file()
