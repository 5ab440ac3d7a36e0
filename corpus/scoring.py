"""Scores of many texts, in order, by one process or several. A text's score does not depend on who scores it.

Comes in: the file of a trained classifier and the texts. Goes out: arrays of scores, a batch at a time; only a few
batches of texts are in memory.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from corpus.classifier import Classifier
from corpus.measure import Scores

BATCH = 256
SMALL = 20 * BATCH  # texts that are scored before other processes have started
_classifier: Classifier | None = None


def score_all(model: Path, texts: Iterable[str], count: int, workers: int) -> Iterator[Scores]:
    """The scores of `count` texts, batch by batch."""
    stream = iter(texts)
    batches = iter(lambda: list(islice(stream, BATCH)), [])
    if workers == 1 or count < SMALL:
        classifier = Classifier.load(model)
        yield from (classifier.score(batch) for batch in batches)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _load, (model,)) as pool:
        running: deque[Future[Scores]] = deque()
        for batch in batches:
            running.append(pool.submit(_score, batch))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _load(model: Path) -> None:
    global _classifier
    _classifier = Classifier.load(model)


def _score(batch: list[str]) -> Scores:
    assert _classifier is not None
    return _classifier.score(batch)
