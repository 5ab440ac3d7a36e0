"""mathmill's extraction and classifier as steps of a datatrove pipeline, for who runs datatrove's executors.

    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.writers import JsonlWriter

    LocalPipelineExecutor(
        pipeline=[ReadPages(["crawl/*.warc.gz"]), ScorePages("classifier.bin", 0.5), JsonlWriter("scored")],
        tasks=100, workers=8, logging_dir="logs",
    ).run()

ReadPages shares the archives among the tasks; the executor keeps a mark of each task's completion. A document is a
page: its text, its id (as in ledger.jsonl), and in its metadata url, file, offset, language, then score.
Needs `pip install "mathmill[datatrove]"`; the stage itself does not use datatrove.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

from datatrove.data import Document, DocumentsPipeline
from datatrove.pipeline.base import PipelineStep

from corpus.archives import input_files
from corpus.classifier import load
from corpus.config import ClassifierConfig, ReadConfig
from corpus.crawl import extract_pages
from corpus.dedup import canonical_url
from corpus.language import language_of
from corpus.linear import LinearModel
from corpus.normalize import is_chinese
from corpus.pages import Page

BATCH = 256


class ReadPages(PipelineStep):  # type: ignore[misc]  # datatrove has no types
    """Pages of the archives that match the patterns, as documents; what is left out is counted by reason."""

    name = "mathmill: read pages"
    type = "📖 - READER"

    def __init__(self, patterns: list[str], config: ReadConfig | None = None) -> None:
        super().__init__()
        self.patterns, self.config = patterns, config or ReadConfig()

    def run(self, data: DocumentsPipeline = None, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """The documents of this task's files."""
        if data:
            yield from data
        for file in input_files(self.patterns)[rank::world_size]:
            for record, text in extract_pages(file, self.config, self.stat_update):
                key = canonical_url(record.url)
                page = Page(key, record.url, text, is_chinese(text), record.file, record.offset)
                origin = {"url": page.url, "file": page.file, "offset": page.offset, "language": language_of(text)}
                self.stat_update("page")
                yield Document(text=text, id=page.id, metadata=origin)


class ScorePages(PipelineStep):  # type: ignore[misc]
    """Documents that the classifier gives at least `least`, with their score in the metadata."""

    name = "mathmill: fastText"
    type = "🔻 - FILTER"

    def __init__(self, model: str | Path, least: float, config: ClassifierConfig | None = None) -> None:
        super().__init__()
        self.model, self.least, self.config = str(model), least, config or ClassifierConfig()

    @cached_property
    def classifier(self) -> LinearModel:
        """Loaded in the process that uses it."""
        return load(self.model, self.config.characters)

    def run(self, data: Iterator[Document], rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Scores whole batches, keeps their order."""
        stream = iter(data)
        while batch := list(islice(stream, BATCH)):
            for document, score in zip(batch, self.classifier.score([d.text for d in batch]), strict=True):
                document.metadata["score"] = float(score)
                self.stat_update("kept" if score >= self.least else "below the threshold")
                if score >= self.least:
                    yield document
