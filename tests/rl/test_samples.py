"""samples.jsonl: every rollout is a line, and a resumed run goes on behind the last step it keeps."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from evals.client import Completion
from rl.questions import Question
from rl.samples import SampleLog

QUESTION = Question("1+1?", [1, 2], "2")


@pytest.fixture(scope="module")
def tokenizer(repository: Path) -> Any:
    return AutoTokenizer.from_pretrained(repository / "examples" / "tokenizer")


def write(log: SampleLog, step: int, output_ids: list[int]) -> None:
    completion = Completion(output_ids, [-0.5] * len(output_ids), "stop", str(step))
    log.write(step, [QUESTION], [[completion] * 2], torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, -1.0]]))
    log.file.flush()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]]


def test_what_a_killed_run_wrote_after_its_checkpoint_is_cut_off(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "samples.jsonl"
    log = SampleLog(path, 0, tokenizer, active=True)
    odd = tokenizer.encode("a\u2028b\u0085c", add_special_tokens=False)  # line separators that are none in JSONL
    for step in range(3):
        write(log, step, odd)
    with open(path, "a") as file:
        file.write('{"step": 4, "question": "to')
    whole = read_steps(path)
    resumed = SampleLog(path, 2, tokenizer, active=True)
    assert [line["step"] for line in read(path)] == [1, 1, 2, 2]
    assert read(path) == whole[:4] and whole[0]["output"] == tokenizer.decode(odd)
    write(resumed, 2, odd)
    assert read(path) == whole


def read_steps(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().decode().split("\n") if line.endswith("}")]
