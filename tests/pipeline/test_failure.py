"""What the executors say about a stage that ended badly."""

import pytest

from pipeline.executors.failure import explain

TORCHRUN = """\
error: data.jsonl: record 3: no 'question'
W1202 07:00:00.000000 140 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process 3 signal SIGTERM
E1202 07:00:00.000000 140 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 2) local_rank: 0
Traceback (most recent call last):
  File "run.py", line 1, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
"""
CRASH = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "x.py", line 1, in <module>
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""


@pytest.mark.parametrize(
    ("exit_code", "log", "expected"),
    [
        (1, TORCHRUN, (2, "data.jsonl: record 3: no 'question'")),
        (2, "error: bad\n", (2, "bad")),
        (1, CRASH, (1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")),
        (
            1,
            "sft: preempted, will resume\nTraceback\nSignalException: x\n",
            (75, "preempted; start it again to resume"),
        ),
        (-9, "step 1\n", (137, "killed by SIGKILL")),
        (3, "one\ntwo\n\n", (3, "two")),
        (3, "", (3, "it printed nothing")),
    ],
)
def test_explanation_is_the_stages_own_word(exit_code: int, log: str, expected: tuple[int, str]) -> None:
    assert explain(exit_code, log) == expected
