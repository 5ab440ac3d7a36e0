"""Formulas of real pages, written down from each page's own source: how many of them the extracted text holds."""

import json
from collections import Counter
from pathlib import Path

from benchmarks.corpus_extract import LABELS, found, labelled_pages
from corpus.config import ReadConfig
from corpus.extract import page_text


def test_the_labels_are_many_and_diverse() -> None:
    labels = [json.loads(line) for line in LABELS.read_text().splitlines()]
    kinds = Counter(label["markup"] for label in labels)
    assert len({(label["url"], label["formula"]) for label in labels}) == len(labels) > 200
    assert len({label["url"] for label in labels}) > 60
    assert len(kinds) == 8
    assert all(len(label["formula"]) <= 200 for label in labels)


def test_formulas_of_every_markup_are_kept(shared_data: Path) -> None:
    formulas, pages = labelled_pages(shared_data / "warc")
    assert set(pages) == set(formulas)
    texts = {url: page_text(record, ReadConfig(min_text_chars=1)) for url, record in pages.items()}
    kept: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in LABELS.read_text().splitlines():
        label = json.loads(line)
        total[label["markup"]] += 1
        kept[label["markup"]] += found([label["formula"]], texts[label["url"]])
    assert kept.total() >= 0.99 * total.total()
    assert all(kept[markup] >= 0.95 * total[markup] for markup in total), kept
