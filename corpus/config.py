"""Settings of the corpus stage. Defaults are the paper's, with the section they come from; imports nothing heavy.

The paper (arXiv 2402.03300) describes the mining of the corpus in section 2.1 and the training mixture in section 2.3.
"""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from stage.section import Section

MINED = "deepseekmath_corpus"  # the name of the source that this stage mines itself


class TextFile(Section):
    """A file of known mathematical texts: the classifier's first positive examples."""

    path: str = "data/open-web-math"  # section 2.1: OpenWebMath; JSONL, parquet, WARC or a `datasets` directory
    text_key: str = "text"


class BenchmarkFile(Section):
    """A benchmark that the corpus must not contain (section 2.1, decontamination): JSONL, one problem a line."""

    name: str
    path: str
    text_keys: list[str] = Field(min_length=1)  # questions and solutions; every text is searched for on its own
    id_key: str | None = None  # None: the line number, from 0


class ReadConfig(Section):
    """Bounds on one page, so that no page can stop the run."""

    max_page_bytes: PositiveInt = 5_000_000  # HTML after decompression
    max_depth: PositiveInt = 400  # nested elements; text extraction takes quadratic time in the depth
    min_text_chars: PositiveInt = 200  # shorter texts are navigation, errors and redirects


class DedupConfig(Section):
    """URL and near-duplicate removal (section 2.1: "URL-based deduplication and near-deduplication techniques").

    The paper gives no figures for these; 16 bands of 8 rows find a pair of similarity 0.8 with probability 0.95.
    """

    num_perm: PositiveInt = 128
    bands: PositiveInt = 16
    threshold: float = Field(0.8, gt=0, le=1)  # estimated Jaccard similarity from which two pages are one
    word_shingle: PositiveInt = 5  # English: words in a shingle
    char_shingle: PositiveInt = 8  # Chinese: characters in a shingle
    seed: int = Field(1, ge=0)

    @model_validator(mode="after")
    def _bands_divide(self) -> "DedupConfig":
        if self.num_perm % self.bands:
            raise ValueError(f"num_perm {self.num_perm} is not a multiple of bands {self.bands}")
        return self


class ClassifierConfig(Section):
    """fastText (section 2.1: dimension 256, learning rate 0.1, word n-grams to 3, words seen 3 times, 3 epochs)."""

    dim: PositiveInt = 256
    lr: PositiveFloat = 0.1
    word_ngrams: PositiveInt = 3
    min_count: PositiveInt = 3
    epochs: PositiveInt = 3
    max_positives: PositiveInt = 500_000  # section 2.1: 500,000 seed pages ...
    max_negatives: PositiveInt = 500_000  # ... and 500,000 pages of Common Crawl
    bucket: PositiveInt = 2_000_000  # fastText's default; hash slots of the n-grams
    held_out: float = Field(0.05, gt=0, lt=0.5)  # share of the examples that measure the classifier
    # Of a longer text, four pieces spread evenly are learned from and scored; null: the whole text.
    characters: int | None = Field(None, ge=400)
    threads: PositiveInt = 16  # fastText is reproducible with 1 thread only


class RoundsConfig(Section):
    """The iterations (section 2.1: four rounds; the fourth found 98% already collected; domains over 10% collected)."""

    max_rounds: PositiveInt = 4
    stop_overlap: float = Field(0.98, gt=0, le=1)
    # Tokens kept by rank, round by round; the last value holds for the rounds after it. Section 2.1 gives the first
    # (40B) and what four rounds ended with (120B); the one between is ours.
    token_budgets: list[PositiveInt] | None = Field([40_000_000_000, 80_000_000_000, 120_000_000_000])
    score_threshold: float | None = Field(None, ge=0, le=1)  # instead of budgets: keep pages that score at least this
    domain_share: float = Field(0.10, gt=0, le=1)
    domain_min_pages: PositiveInt = 10  # smaller domains, and smaller paths inside them, say nothing
    discovery: Literal["automatic", "annotations", "off"] = "automatic"
    annotations: str | None = None  # YAML of {domain, path, keep}; overrides what the automatic mode proposes
    path_share: float = Field(0.5, gt=0, le=1)  # automatic mode: keep a path when this share of its pages is collected
    known_pages: str | None = None  # URLs, one a line, of pages known to be mathematical: measures recall

    @model_validator(mode="after")
    def _one_cut(self) -> "RoundsConfig":
        if (self.token_budgets is None) == (self.score_threshold is None):
            raise ValueError("set exactly one of token_budgets and score_threshold (the other to null)")
        if self.token_budgets == []:
            raise ValueError("token_budgets is empty; give at least one budget")
        if self.discovery == "annotations" and self.annotations is None:
            raise ValueError("discovery 'annotations' needs the key annotations: the path of a YAML file")
        return self


class DecontaminationConfig(Section):
    """Section 2.1: any 10-gram in common with a benchmark; texts of 3 to 9 grams exactly."""

    ngram: PositiveInt = 10
    min_ngram: PositiveInt = 3
    benchmarks: list[BenchmarkFile] = Field(
        [
            BenchmarkFile(name="gsm8k", path="data/benchmarks/gsm8k.jsonl", text_keys=["question", "answer"]),
            BenchmarkFile(name="math", path="data/benchmarks/math.jsonl", text_keys=["problem", "solution"]),
            BenchmarkFile(name="cmath", path="data/benchmarks/cmath.jsonl", text_keys=["question"]),
        ]
    )

    @model_validator(mode="after")
    def _lengths(self) -> "DecontaminationConfig":
        if self.min_ngram > self.ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is larger than ngram {self.ngram}")
        return self


class SourceConfig(Section):
    """One source of the training mixture; `path` None is the corpus that this stage mines."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    weight: float = Field(gt=0, le=1)
    path: str | None = None  # JSONL, parquet or a `datasets` directory or hub name
    text_key: str = "text"

    @model_validator(mode="after")
    def _mined_has_no_path(self) -> "SourceConfig":
        if (self.path is None) != (self.name == MINED):
            raise ValueError(f"source '{self.name}': '{MINED}' is mined and has no path, every other source needs one")
        return self


class CorpusConfig(Section):
    """The corpus stage: what it reads, how it mines, what it mixes."""

    inputs: list[str] = Field(["data/commoncrawl/*.warc.gz"], min_length=1)  # WARC or WET files: paths, globs, URLs
    seed: TextFile = TextFile()
    read: ReadConfig = ReadConfig()
    dedup: DedupConfig = DedupConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    rounds: RoundsConfig = RoundsConfig()
    decontamination: DecontaminationConfig = DecontaminationConfig()
    # Section 2.3: 56% DeepSeekMath Corpus, 4% AlgebraicStack, 10% arXiv, 20% GitHub code, 10% natural language
    sources: list[SourceConfig] = Field(
        [
            SourceConfig(name=MINED, weight=0.56),
            SourceConfig(name="algebraic_stack", weight=0.04, path="data/algebraic-stack"),
            SourceConfig(name="arxiv", weight=0.10, path="data/arxiv"),
            SourceConfig(name="github_code", weight=0.20, path="data/github-code", text_key="content"),
            SourceConfig(name="natural_language", weight=0.10, path="data/natural-language"),
        ],
        min_length=1,
    )

    @model_validator(mode="after")
    def _mixture(self) -> "CorpusConfig":
        total = sum(s.weight for s in self.sources)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"sources: the weights add up to {total:g}, not 1")
        names = [s.name for s in self.sources]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"sources: the name '{twice[0]}' is used twice")
        if MINED not in names:
            raise ValueError(f"sources: no '{MINED}', the corpus that this stage mines")
        return self
