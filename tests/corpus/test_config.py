"""The corpus section: the paper's figures by default, impossible combinations refused with the key named."""

from typing import Any

import pytest
from pydantic import ValidationError

from corpus.config import MINED, CorpusConfig
from pipeline.config import load_profile


def test_defaults_are_the_papers() -> None:
    config = CorpusConfig()
    c = config.classifier
    assert (c.dim, c.lr, c.word_ngrams, c.min_count, c.epochs) == (256, 0.1, 3, 3, 3)
    assert c.max_positives == c.max_negatives == 500_000
    assert (config.rounds.max_rounds, config.rounds.domain_share, config.rounds.stop_overlap) == (4, 0.10, 0.98)
    assert (config.decontamination.ngram, config.decontamination.min_ngram) == (10, 3)
    assert [s.weight for s in config.sources] == [0.56, 0.04, 0.10, 0.20, 0.10]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"nonsense": 1}, "Extra inputs"),
        ({"dedup": {"num_perm": 100, "bands": 16}}, "not a multiple of bands 16"),
        ({"rounds": {"score_threshold": 0.5}}, "exactly one of token_budgets and score_threshold"),
        ({"rounds": {"discovery": "annotations"}}, "needs the key annotations"),
        ({"decontamination": {"ngram": 2}}, "min_ngram 3 is larger"),
        ({"sources": [{"name": MINED, "weight": 0.5}]}, "add up to 0.5"),
        ({"sources": [{"name": "other", "weight": 1.0, "path": "x"}]}, f"no '{MINED}'"),
        ({"sources": [{"name": "other", "weight": 1.0}]}, "every other source needs one"),
    ],
)
def test_impossible_settings_are_refused(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CorpusConfig.model_validate(section)


@pytest.mark.parametrize("name", ["tiny", "smollm2-135m", "1.3b", "7b"])
def test_every_published_benchmark_that_a_profile_evaluates_is_kept_out_of_its_corpus(name: str) -> None:
    """The demo's word problems are generated; they are on no web page."""
    profile = load_profile(name)
    evaluated = {run.name for run in profile.evals.benchmarks if run.name != "word_problems"}
    assert evaluated <= {benchmark.name for benchmark in profile.corpus.decontamination.benchmarks}
