"""One task of a job array: read a share of the input files and stop there.

Comes in: a planned run directory on a file system that all tasks see, and which share (`3/100`: the files number 3,
103, 203, ... of the sorted list). Goes out: what corpus/shards.py keeps of each file, with its mark. The stage itself,
started afterwards without a share, reads what is missing and goes on. A task whose files are all read ends at once.
"""

import fcntl
import signal
import sys
from pathlib import Path

from stage import EXIT_REQUEUE, Preempted, Progress, Stage, UsageError


def parse_share(text: str) -> tuple[int, int]:
    """`3/100` -> (3, 100), numbered from 0. Raises ValueError for anything else."""
    number, _, of = text.partition("/")
    share = int(number), int(of)
    if not 0 <= share[0] < share[1]:
        raise ValueError(f"expected a share such as 0/100 or 99/100, got {text}")
    return share


def read_share(run_dir: Path, share: tuple[int, int], workers: int) -> int:
    """The exit code: 0 read, 75 told to stop."""
    from corpus.archives import input_files
    from corpus.config import CorpusConfig
    from corpus.shards import megabytes, read_shards, shards_of

    stage = _stage(run_dir)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: setattr(stage, "preempted", True))
    config = stage.section("corpus", CorpusConfig)
    shards = shards_of(stage, input_files(config.inputs)[share[0] :: share[1]])
    try:
        with Progress(f"corpus: read share {share[0]}/{share[1]}", megabytes(shards), "MB") as progress:
            read_shards(stage, shards, config, workers, progress)
    except Preempted:
        print("corpus: preempted, will resume", file=sys.stderr)
        return EXIT_REQUEUE
    return 0


def _stage(run_dir: Path) -> Stage:
    """The stage, claimed by one task at a time: the first throws away what another fingerprint left behind."""
    if not (run_dir / "plan.json").is_file():
        raise UsageError(f"{run_dir} is not planned; `python -m pipeline.plan --profile … --run-dir {run_dir}` does it")
    (run_dir / ".work").mkdir(exist_ok=True)
    with open(run_dir / ".work" / "corpus.claim", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Stage("corpus", run_dir)
