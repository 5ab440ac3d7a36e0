"""fastText filtering: mathmill's scoring against datatrove's FastTextClassifierFilter, with one and the same model.

    python benchmarks/corpus_classify.py --input 'crawl/*.warc.gz' [--rounds 3] [--every 1]

The model is trained here, on the demo's seed and these pages. Both filters get extracted texts in memory and one core.
They normalise the text each in its own way (datatrove takes out the line breaks and no more), so "mathmill, the same
text" also times mathmill's call of fastText on datatrove's text. Last, mathmill scores with one and with two processes.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import FastTextClassifierFilter

from corpus.archives import input_files
from corpus.classifier import POSITIVE, Classifier, interleave, train
from corpus.config import ClassifierConfig, ReadConfig
from corpus.crawl import extract_pages
from corpus.texts import read_texts

EXAMPLES = Path(__file__).parents[1] / "examples"
BATCH = 256
_model: Classifier | None = None


def load(model: str) -> None:
    """Each process loads the model once."""
    import fasttext

    global _model
    _model = Classifier(fasttext.load_model(model))


def score(texts: list[str]) -> int:
    """Pages with a score of one half or more."""
    assert _model is not None
    return sum(int((_model.score(texts[i : i + BATCH]) >= 0.5).sum()) for i in range(0, len(texts), BATCH))


def raw_score(texts: list[str]) -> int:
    """The same without the normalisation."""
    assert _model is not None
    lines = [t.strip().replace("\n", "") for t in texts]
    labels, probabilities = _model._model.predict(lines, k=2)
    return sum(
        dict(zip(ls, ps, strict=True)).get(POSITIVE, 0.0) >= 0.5 for ls, ps in zip(labels, probabilities, strict=True)
    )


def datatrove_score(model: str) -> Callable[[list[str]], int]:
    """datatrove's filter as a function of texts."""
    FastTextClassifierFilter._requires_dependencies = ["fasteners"]  # it asks for a fork that replaces fasttext
    step = FastTextClassifierFilter(
        model, keep_labels=[(POSITIVE.removeprefix("__label__"), 0.5)], newline_replacement=""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", nargs="+", default=[str(EXAMPLES / "pages.warc.gz")], help="archives")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="use every n-th page")
    args = parser.parse_args()
    files = input_files(args.input)
    texts = [t for f in files for _, t in extract_pages(f, ReadConfig(), lambda reason: None)][:: args.every]
    print(f"{len(texts)} pages, {sum(map(len, texts)) / 1e6:.1f} million characters", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/classifier.bin"
        seed = list(read_texts(str(EXAMPLES / "seed.jsonl"), "text", lambda reason: None))
        config = ClassifierConfig(dim=256, epochs=1, bucket=200_000, threads=1)
        train(interleave(seed, texts[:100], 100), config, 1, Path(folder) / "examples.txt").model.save(Path(model))
        load(model)
        ways = {"mathmill": score, "mathmill, the same text": raw_score, "datatrove": datatrove_score(model)}
        compare(ways, texts, args.rounds)
        scale(model, texts, args.rounds)


def compare(ways: dict[str, Callable[[list[str]], int]], texts: list[str], rounds: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.process_time()
            kept = way(texts)
            seconds[name].append(time.process_time() - began)
            print(f"{name}: {kept} kept, {seconds[name][-1]:.2f} CPU seconds", flush=True)
    for name, values in seconds.items():
        ratio = statistics.median(d / s for d, s in zip(seconds["datatrove"], values, strict=True))
        print(f"{name}: {len(texts) / statistics.median(values):.0f} pages/s, {ratio:.2f} times datatrove's rate")


def scale(model: str, texts: list[str], rounds: int) -> None:
    """Wall time with one and with two processes, on the same list of tasks."""
    tasks = [texts[i::8] for i in range(8)]
    walls: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, values in walls.items():
            with get_context("spawn").Pool(workers, load, (model,)) as pool:
                pool.map(score, [texts[:8]] * 2 * workers, chunksize=1)  # the processes are up
                began = time.perf_counter()
                pool.map(score, tasks, chunksize=1)
                values.append(time.perf_counter() - began)
    ratio = statistics.median(a / b for a, b in zip(walls[1], walls[2], strict=True))
    print(f"two processes: {ratio:.2f} times the rate of one (wall time)")


if __name__ == "__main__":
    main()
