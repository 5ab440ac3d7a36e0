"""Scores of many pages, in order, by one process or several. A page's score does not depend on who scores it.

Comes in: a trained classifier and the numbers of pages in a store. Goes out: arrays of scores, a batch at a time. Each
process reads the pages itself: what passes between processes is places in a file, and scores.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from corpus.linear import LinearModel
from corpus.measure import Scores
from corpus.pages import PageStore, read_texts_at

BATCH = 256
SMALL = 20 * BATCH  # pages that are scored before other processes have started
_model: LinearModel | None = None


def score_all(model: LinearModel, store: PageStore, numbers: Sequence[int], workers: int) -> Iterator[Scores]:
    """The scores of the pages with these numbers, batch by batch; fastest in ascending order."""
    places = store.places(numbers)
    batches = [places[i : i + BATCH] for i in range(0, len(places), BATCH)]
    if workers == 1 or len(numbers) < SMALL:
        for batch in batches:
            yield model.score(read_texts_at(store.path, batch))
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _receive, (model,)) as pool:
        running: deque[Future[Scores]] = deque()
        for batch in batches:
            running.append(pool.submit(_score, store.path, batch))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _receive(model: LinearModel) -> None:
    global _model
    _model = model


def _score(file: Path, places: list[int]) -> Scores:
    assert _model is not None
    return _model.score(read_texts_at(file, places))
