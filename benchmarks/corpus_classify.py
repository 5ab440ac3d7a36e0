"""fastText filtering: mathmill's scoring against datatrove's FastTextClassifierFilter, with one and the same model.

    python benchmarks/corpus_classify.py [--input 'crawl/*.warc.gz'] [--rounds 3] [--every 4]

The model is trained here, with the paper's settings for its size, on the demo's seed and some of the pages. Both
filters get extracted texts in memory and one core. They split a text into words each in its own way: datatrove takes
out the line breaks and no more; mathmill reads whole pages, or with `classifier.characters` pieces of a long one.
fastText's own `predict` on mathmill's words must keep the pages that mathmill keeps. Last, the stage's own scoring,
pages on disk, with one process and with two, start of the processes included.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fasttext
from corpus_pages import EXAMPLES, texts_and_rounds
from datatrove.data import Document
from datatrove.pipeline.filters import FastTextClassifierFilter

from corpus import scoring
from corpus.classifier import POSITIVE, interleave, train
from corpus.config import ClassifierConfig
from corpus.linear import LinearModel
from corpus.normalize import for_classifier
from corpus.pages import Page, PageStore
from corpus.texts import read_texts

# The paper's, except a tenth of fastText's buckets, so that its own matrix is 200 MB, and enough epochs to learn.
CONFIG = ClassifierConfig(bucket=200_000, epochs=20, threads=1)
CHARACTERS = 4000
SCALING_PAGES = 8_000


def datatrove_filter(file: Path, cut: float) -> Callable[[list[str]], int]:
    """datatrove's filter as a function of texts: pages kept."""
    FastTextClassifierFilter._requires_dependencies = ["fasteners"]  # it asks for a fork that replaces fasttext
    step = FastTextClassifierFilter(
        str(file), keep_labels=[(POSITIVE.removeprefix("__label__"), cut)], newline_replacement=""
    )
    # fastText 0.9.3 fails on a single string with numpy 2, as datatrove calls it: the same call of its C++ part
    inner = step.model

    class OneLine:
        labels = inner.get_labels()

        def predict(self, line: str, k: int) -> tuple[list[str], list[float]]:
            found = inner.f.predict(line + "\n", k, 0.0, "strict")
            return [label for _, label in found], [p for p, _ in found]

    step._model = OneLine()
    return lambda texts: sum(1 for _ in step.run(Document(text=t, id=str(i)) for i, t in enumerate(texts)))


def fasttext_filter(model: Any, texts: list[str], cut: float) -> int:
    """Pages that fastText's own `predict` keeps, on mathmill's words."""
    labels, probabilities = model.predict([for_classifier(t) for t in texts], k=2)
    return sum(dict(zip(ls, ps, strict=True))[POSITIVE] >= cut for ls, ps in zip(labels, probabilities, strict=True))


def main() -> None:
    texts, rounds = texts_and_rounds(__doc__, every=4)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "classifier.bin"
        seed = list(read_texts(str(EXAMPLES / "seed.jsonl"), "text", lambda reason: None))
        others = texts[:: max(1, len(texts) // 100)]
        model = train(interleave(seed, others, len(others)), CONFIG, 1, file).model
        compare(model, file, texts, rounds)
        scale(model, texts, Path(folder), rounds)


def compare(model: LinearModel, file: Path, texts: list[str], rounds: int) -> None:
    cut = statistics.median(model.score(texts))
    peer = fasttext.load_model(str(file))
    pieces = LinearModel(model.words, model.weights, model.bucket, model.word_ngrams, CHARACTERS)
    ways: dict[str, Callable[[list[str]], int]] = {
        "mathmill": lambda texts: sum(model.score(texts) >= cut),
        f"mathmill, characters: {CHARACTERS}": lambda texts: sum(pieces.score(texts) >= cut),
        "fastText, mathmill's words": lambda texts: fasttext_filter(peer, texts, cut),
        "datatrove": datatrove_filter(file, cut),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.process_time()
            kept = way(texts)
            seconds[name].append(time.process_time() - began)
            print(f"{name}: {kept} kept, {seconds[name][-1]:.2f} CPU seconds", flush=True)
    print("\n| fastText filter | pages/s | ratio |\n|---|---|---|")
    for name, values in seconds.items():
        ratio = statistics.median(d / s for d, s in zip(seconds["datatrove"], values, strict=True))
        print(f"| {name} | {len(texts) / statistics.median(values):.0f} | {ratio:.2f} |")


def scale(model: LinearModel, texts: list[str], folder: Path, rounds: int) -> None:
    """Wall time of the stage's scoring with one and with two processes, on the pages over and over."""
    walls: dict[int, list[float]] = {1: [], 2: []}
    with PageStore(folder / "pages.jsonl") as store:
        for number in range(SCALING_PAGES):
            store.append(Page(str(number), str(number), texts[number % len(texts)], False, "", 0))
        for _ in range(rounds):
            for workers, values in walls.items():
                began = time.perf_counter()
                for _batch in scoring.score_all(model, store, range(SCALING_PAGES), workers):
                    pass
                values.append(time.perf_counter() - began)
    ratio = statistics.median(a / b for a, b in zip(walls[1], walls[2], strict=True))
    times = " and ".join(f"{statistics.median(values):.1f} s with {workers}" for workers, values in walls.items())
    print(f"\n{SCALING_PAGES} pages from disk: {times}; two processes are {ratio:.2f} times as fast as one")


if __name__ == "__main__":
    main()
