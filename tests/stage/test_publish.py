"""The publication of a stage's result."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STAGE = """
import os, sys
from stage import stage_main

def body(stage):
    (stage.work / "resume").mkdir(exist_ok=True)
    (stage.work / "resume" / "checkpoint").write_text("step 100")
    with open(stage.work / "weights", "wb") as f:
        f.truncate(int(os.environ["SIZE"]))

sys.exit(stage_main("sft", body))
"""


def start(repository: Path, run_dir: Path, size: int) -> "subprocess.Popen[str]":
    (run_dir / "profile.yaml").write_text("{}")
    plan = {"stages": {"sft": {"fingerprint": "f", "inputs": [], "files": []}}, "code_version": "c"}
    (run_dir / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-c", STAGE, "--run-dir", str(run_dir)]
    environment = os.environ | {"SIZE": str(size)}
    return subprocess.Popen(command, cwd=repository, env=environment, stderr=subprocess.PIPE, text=True)


def test_stage_killed_while_its_result_is_hashed_keeps_its_checkpoint(repository: Path, tmp_path: Path) -> None:
    process = start(repository, tmp_path, 16 * 2**30)  # a sparse file: nothing on the disk, many seconds to hash
    weights = tmp_path / ".work" / "sft" / "weights"
    deadline = time.monotonic() + 30
    while not (weights.is_file() and weights.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "sft").exists()
    assert (tmp_path / ".work" / "sft" / "resume" / "checkpoint").read_text() == "step 100"


def test_published_result_holds_what_was_made_and_not_the_checkpoint(repository: Path, tmp_path: Path) -> None:
    process = start(repository, tmp_path, 5)
    assert process.wait(30) == 0
    assert sorted(p.name for p in (tmp_path / "sft").iterdir()) == ["fingerprint", "manifest.json", "weights"]
    manifest = json.loads((tmp_path / "sft" / "manifest.json").read_text())
    assert [e["path"] for e in manifest["outputs"]] == ["fingerprint", "weights"]


def test_second_process_of_the_same_stage_is_refused(repository: Path, tmp_path: Path) -> None:
    first = start(repository, tmp_path, 16 * 2**30)
    lock, deadline = tmp_path / ".work" / "sft.lock", time.monotonic() + 30
    while not (lock.is_file() and lock.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = start(repository, tmp_path, 5)
    _, said = second.communicate(timeout=30)
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert said.startswith(f"error: stage sft of {tmp_path} is in use by process {first.pid} on ")
