"""What the corpus tests share: a run directory as the pipeline would make it, and archives made on the spot."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

SENTENCE = "This page says enough about its subject to be worth keeping in a corpus of text. "


@pytest.fixture
def tiny_profile(repository: Path) -> dict[str, Any]:
    """The demo's corpus settings, with paths that do not depend on the working directory."""
    examples = repository / "examples"
    sources = ["algebraic_stack", "arxiv", "github_code", "natural_language"]
    weights = dict(zip(sources, (0.04, 0.10, 0.20, 0.10), strict=True))
    texts = {"gsm8k": ["question", "answer"], "math": ["problem", "solution"], "cmath": ["question"]}
    corpus = {
        "inputs": [str(examples / "pages.warc.gz")],
        "seed": {"path": str(examples / "seed.jsonl")},
        "classifier": {"dim": 32, "epochs": 100, "max_negatives": 40, "bucket": 50000, "held_out": 0.15, "threads": 1},
        "rounds": {
            "max_rounds": 2,
            "token_budgets": [80000, 160000],
            "domain_min_pages": 3,
            "known_pages": str(examples / "known_pages.txt"),
        },
        "decontamination": {
            "benchmarks": [
                {"name": name, "path": str(examples / f"benchmarks/{name}.jsonl"), "text_keys": keys}
                for name, keys in texts.items()
            ]
        },
        "sources": [
            {"name": "deepseekmath_corpus", "weight": 0.56},
            *({"name": s, "weight": weights[s], "path": str(examples / f"sources/{s}.jsonl")} for s in sources),
        ],
    }
    return {"name": "test", "seed": 1, "tokenizer": str(examples / "tokenizer"), "corpus": corpus}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Write a run directory with this profile and a plan of the corpus stage; return it."""

    def make(profile: dict[str, Any], name: str = "run") -> Path:
        run = tmp_path / name
        run.mkdir()
        (run / "profile.yaml").write_text(yaml.safe_dump(profile))
        plan = {"stages": {"corpus": {"fingerprint": "f", "inputs": [], "files": []}}, "code_version": "test"}
        (run / "plan.json").write_text(json.dumps(plan))
        return run

    return make


def warc_record(url: str, body: bytes, http: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n") -> bytes:
    """One uncompressed response record."""
    block = http + body
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{abs(hash(url))}>\r\nWARC-Target-URI: {url}\r\n"
        f"WARC-Date: 2024-01-01T00:00:00Z\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def html_page(text: str) -> bytes:
    return f"<html><body><main><p>{text}</p><p>{SENTENCE * 5}</p></main></body></html>".encode()


def write_warc(path: Path, records: list[bytes]) -> Path:
    """A .warc.gz with a gzip member for every record, as in Common Crawl."""
    path.write_bytes(b"".join(gzip.compress(r) for r in records))
    return path
