"""The evaluation stage on the real SGLang server: killed once, its server killed once, and no answer asked twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from transformers import LlamaConfig, LlamaForCausalLM

pytestmark = pytest.mark.integration

CHECKPOINTS = ["sft", "grpo"]
PROBLEMS, SAMPLES, SHIPPED, WITH_TOOLS = 48, 3, 12, 4
PATIENCE = 300.0  # seconds, for a server start on a busy machine
EVALS = {
    "checkpoints": CHECKPOINTS,
    "few_shot_checkpoints": [],
    "batch_size": 6,  # many small batches: many places to be killed at
    "bootstrap_draws": 100,
    "benchmarks": [
        {"name": "word_problems", "limit": PROBLEMS, "num_samples": SAMPLES, "max_new_tokens": 24},
        {
            "name": "math",
            "path": "examples/benchmarks/math.jsonl",
            "limit": SHIPPED,
            "num_samples": 0,
            "max_new_tokens": 24,
        },
        {"name": "word_problems", "mode": "tool", "limit": WITH_TOOLS, "num_samples": 0, "max_new_tokens": 24},
    ],
    "sandbox": {"workers": 1},
}
SERVER = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8000, "mem_fraction_static": 0.2}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A run directory with two published checkpoints of random weights."""
    run = tmp_path_factory.mktemp("runs") / "evals"
    for seed, name in enumerate(CHECKPOINTS):
        torch.manual_seed(seed)
        shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = LlamaConfig(vocab_size=1024, max_position_embeddings=512, bos_token_id=0, eos_token_id=0, **shape)
        LlamaForCausalLM(config).save_pretrained(run / name / "hf")
        shutil.copytree(repository / "examples" / "tokenizer", run / name / "hf", dirs_exist_ok=True)
        manifest = {
            "metrics": {},
            "counts": {"in": 0, "out": 0, "dropped": {}},
            "wall_seconds": 1,
            "peak_memory_bytes": 1,
        }
        (run / name / "manifest.json").write_text(json.dumps(manifest))
    (run / "profile.yaml").write_text(yaml.safe_dump({"name": "test", "seed": 3, "evals": EVALS, "server": SERVER}))
    plan = {"stages": {"evals": {"fingerprint": "f", "inputs": CHECKPOINTS, "files": []}}, "code_version": "test"}
    (run / "plan.json").write_text(json.dumps(plan))
    return run


def start(run_dir: Path, repository: Path) -> "subprocess.Popen[bytes]":
    with open(run_dir / "evals.log", "ab") as log:
        command = [sys.executable, "-m", "evals.run", "--run-dir", str(run_dir)]
        return subprocess.Popen(command, cwd=repository, stdout=log, stderr=log)


def wait_until(true: Callable[[], bool], process: "subprocess.Popen[bytes]", run_dir: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert process.poll() is None, (run_dir / "evals.log").read_text()[-3000:]
        assert time.monotonic() < deadline, (run_dir / "evals.log").read_text()[-3000:]
        time.sleep(0.02)


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that end in a newline."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def servers(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The SGLang processes below the stage, not its answer judge and its sandbox."""
    children = psutil.Process(process.pid).children(recursive=True)
    others = ("judge.py", "evals.sandbox.zygote")
    return [p for p in children if not any(name in " ".join(p.cmdline()) for name in others)]


def test_killed_evaluation_goes_on_where_it_was_and_survives_its_servers_death(run_dir: Path, repository: Path) -> None:
    work = run_dir / ".work" / "evals" / "samples"
    first, last = work / "sft" / "word_problems.jsonl", work / "grpo" / "word_problems.jsonl"

    process = start(run_dir, repository)
    wait_until(lambda: len(whole_lines(first)) > PROBLEMS + 2, process, run_dir)  # in the middle of the samples
    left_behind = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = whole_lines(first)
    assert not (run_dir / "evals").exists()
    _, alive = psutil.wait_procs(left_behind, timeout=20)
    assert alive == []
    with open(first, "a") as f:
        f.write('{"id": "47", "mode": "sam')  # torn by the kill

    process = start(run_dir, repository)
    wait_until(lambda: len(whole_lines(last)) > 2, process, run_dir)  # the second checkpoint is loaded
    for server in servers(process):
        server.kill()
    assert process.wait(timeout=PATIENCE) == 0, (run_dir / "evals.log").read_text()[-3000:]

    output = run_dir / "evals"
    assert whole_lines(output / "samples" / "sft" / "word_problems.jsonl")[: len(kept)] == kept
    for checkpoint in CHECKPOINTS:
        words, shipped = (samples(output, checkpoint, b) for b in ("word_problems", "math"))
        asked = [(s["id"], s["mode"]) for s in words]
        assert len(asked) == len(set(asked)) == 2 * PROBLEMS
        assert all(len(s["completions"]) == (1 if s["mode"] == "greedy" else SAMPLES) for s in words)
        assert [s["id"] for s in shipped] == [str(i) for i in range(SHIPPED)]
        with_tools = [c for s in samples(output, checkpoint, "word_problems-tool") for c in s["completions"]]
        assert all(c["rounds"] == 1 + len(c["executions"]) for c in with_tools)
    one, other = ([s["completions"] for s in samples(output, c, "word_problems")] for c in CHECKPOINTS)
    assert one != other  # each checkpoint answered with its own weights
    check_published(output)


def check_published(output: Path) -> None:
    manifest = json.loads((output / "manifest.json").read_text())
    files = {f["path"] for f in manifest["outputs"]}
    assert {"report.md", "report.json", "report.html", "samples/grpo/math.jsonl"} <= files
    skipped = sum(
        n for reason, n in manifest["counts"]["dropped"].items() if "exceed the context of 512 tokens" in reason
    )
    assert manifest["counts"]["in"] == len(CHECKPOINTS) * (2 * PROBLEMS + SHIPPED + WITH_TOOLS)
    assert manifest["counts"]["out"] == manifest["counts"]["in"] - skipped
    assert 0.0 <= manifest["metrics"]["word_problems grpo"] <= 1.0
    assert manifest["metrics"]["checks_without_verdict"] == {}
    assert "rlimits" in manifest["metrics"]["sandbox"]["strength"]
    assert "this run, GRPO" in (output / "report.md").read_text()


def samples(output: Path, checkpoint: str, benchmark: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in whole_lines(output / "samples" / checkpoint / f"{benchmark}.jsonl")]
