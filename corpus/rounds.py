"""The rounds of mining (paper, section 2.1): train, score, rank, collect, discover domains, enlarge the seed, repeat.

Comes in: the seed texts and the crawl. Goes out: the positions of the collected pages, the scores of every round, and
the table of the rounds. The corpus is what the last round collected, with the classifier that learned most.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corpus.classifier import Trained, interleave, train
from corpus.config import CorpusConfig, RoundsConfig
from corpus.crawl import Crawl, stop_if_asked
from corpus.dedup import canonical_url, domain_of
from corpus.domains import PathRule, Proposal, discover, kept_by, read_annotations, write_proposals
from corpus.linear import LinearModel
from corpus.measure import Scores, figures
from corpus.scoring import score_all
from corpus.seed import rank
from corpus.summary import rounds_table
from corpus.tokenize import Tokenizer
from stage import Stage, UsageError

Tokens = npt.NDArray[np.float64]
SAMPLE_PAGES = 1000  # pages whose exact tokens give the tokens a character that budgets are counted with


@dataclass(frozen=True)
class Mined:
    """The outcome of the rounds; pages are named by their positions in the crawl."""

    collected: list[int]  # in order
    scores: list[Scores]  # of every round
    rounds: dict[int, int]  # the round that first collected a page


class Miner:
    """What the rounds share and never change: the crawl, the seed, what people said about domains."""

    def __init__(
        self,
        stage: Stage,
        config: CorpusConfig,
        seed: list[str],
        crawl: Crawl,
        tokenizer: Tokenizer,
        workers: int = 1,
    ) -> None:
        self.stage, self.config, self.seed, self.crawl, self.workers = stage, config, seed, crawl, workers
        self.random_seed: int = stage.profile["seed"]
        self.tokens = _estimate_tokens(crawl, tokenizer)
        self.known = _known_positions(stage, config.rounds, crawl)
        self.annotations = _annotations(stage, config.rounds, crawl)

    def run(self) -> Mined:
        """All rounds, until the last one or until a round finds (almost) only what the round before had found."""
        rounds = self.config.rounds
        added: set[int] = set()  # pages that discovered paths added to the seed
        collected: set[int] = set()
        domains: set[str] = set()
        scores: list[Scores] = []
        first: dict[int, int] = {}
        table: list[dict[str, Any]] = []
        for number in range(1, rounds.max_rounds + 1):
            trained = self._train(number, added, collected)
            scores.append(self._score(number, trained.model))
            picked, cut = select(scores[-1], self.tokens, number, rounds)
            first |= {p: number for p in picked if p not in first}
            proposals = self._discover(number, picked)
            new_domains = {p.domain for p in proposals} - domains
            overlap = len(picked & collected) / len(picked)
            row: dict[str, Any] = {
                "round": number,
                "pages": len(picked),
                "tokens": int(self.tokens[sorted(picked)].sum()),
                "cut": cut,
            }
            row |= {"overlap": overlap, "new_domains": sorted(new_domains), "recall": self._recall(picked)}
            row |= {"seed_pages_added": len(added), **self._measure(number, trained, cut)}
            table.append(row)
            self._report(row)
            collected, domains = picked, domains | new_domains
            if overlap >= rounds.stop_overlap or len(picked | self.known) == len(self.crawl):
                break  # nothing new, or nothing left that the next round could learn from
            added |= self._pages_to_add(proposals, picked)
        print(rounds_table(table), flush=True)
        self.stage.metrics |= {"pages": len(collected), "known_pages_found": table[-1]["recall"], "rounds": table}
        return Mined(sorted(collected), scores, first)

    def _train(self, number: int, added: set[int], collected: set[int]) -> Trained:
        """Positives: the seed and the added pages. Negatives: a sample of the crawl without what looks like maths."""
        excluded = added | collected | self.known
        others = [p for p in range(len(self.crawl)) if p not in excluded]
        others.sort(key=lambda p: rank(self.crawl.keys[p], self.random_seed))
        others = others[: self.config.classifier.max_negatives]
        if not others:
            raise UsageError(f"corpus: round {number} has no page left as a negative example; the crawl is too small")
        texts = [*self.seed, *(self.crawl.page(p).text for p in sorted(added))]
        positives = sorted(texts, key=lambda t: rank(t, self.random_seed))[: self.config.classifier.max_positives]
        examples = interleave(positives, (self.crawl.page(p).text for p in others), len(others))
        return train(examples, self.config.classifier, self.random_seed, self._folder(number) / "classifier.bin")

    def _score(self, number: int, model: LinearModel) -> Scores:
        scores, start = np.empty(len(self.crawl)), 0
        order = np.argsort(self.crawl.numbers)  # as the pages lie on disk
        numbers = [self.crawl.numbers[position] for position in order]
        with self.stage.progress(f"round {number}: score", len(self.crawl), "pages") as progress:
            for batch in score_all(model, self.crawl.store, numbers, self.workers):
                scores[order[start : start + len(batch)]] = batch
                start += len(batch)
                progress.update(len(batch))
                stop_if_asked(self.stage)
        return scores

    def _discover(self, number: int, picked: set[int]) -> list[Proposal]:
        proposals = discover(self.crawl.keys, {self.crawl.keys[p] for p in picked}, self.config.rounds)
        write_proposals(self._folder(number) / "domains.yaml", proposals)
        return proposals

    def _measure(self, number: int, trained: Trained, cut: float) -> dict[str, Any]:
        """A classifier's figures: all to rounds/N/classifier.json and the metrics, the main ones to the round's row."""
        measured: dict[str, Any] = {"round": number, "positives": trained.positives, "negatives": trained.negatives}
        measured |= figures(trained.held_out, cut)
        text = json.dumps(measured, indent=2) + "\n"
        (self._folder(number) / "classifier.json").write_text(text, encoding="utf-8")
        self.stage.metrics["classifier"] = measured  # that of the last round stays
        return {
            "positives": trained.positives,
            "negatives": trained.negatives,
            **{f"held_out_{key}": measured["held_out"][key] for key in ("precision", "recall", "auc")},
        }

    def _pages_to_add(self, proposals: list[Proposal], picked: set[int]) -> set[int]:
        """Pages under kept paths that the round did not collect; known pages stay out, they measure recall."""
        if self.config.rounds.discovery == "off":
            return set()
        rules = [PathRule(p.domain, p.path, p.keep) for p in proposals] if self._automatic else []
        rules += [r for r in self.annotations if r.domain in {p.domain for p in proposals}]
        kept = kept_by(rules, self.crawl.keys)
        return {p for p, key in enumerate(self.crawl.keys) if key in kept} - picked - self.known

    @property
    def _automatic(self) -> bool:
        return self.config.rounds.discovery == "automatic"

    def _recall(self, picked: set[int]) -> float | None:
        return len(picked & self.known) / len(self.known) if self.known else None

    def _report(self, row: dict[str, Any]) -> None:
        recall = "" if row["recall"] is None else f", recall of known pages {row['recall']:.0%}"
        print(
            f"corpus: round {row['round']}: {row['pages']} pages, {row['tokens']} tokens, "
            f"{row['overlap']:.0%} collected before, new domains {len(row['new_domains'])}{recall}",
            flush=True,
        )

    def _folder(self, number: int) -> Path:
        folder = self.stage.work / "rounds" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def select(scores: Scores, tokens: Tokens, number: int, config: RoundsConfig) -> tuple[set[int], float]:
    """The pages that round `number` collects and the lowest score among them.

    By budget: pages in order of score while their tokens fit. By threshold: every page that reaches it.
    """
    order = np.argsort(-scores, kind="stable")  # equal scores: the order of the crawl, which is fixed
    if config.token_budgets is not None:
        budget = config.token_budgets[min(number, len(config.token_budgets)) - 1]
        count = int(np.searchsorted(np.cumsum(tokens[order]), budget, side="right"))
    else:
        count = int((scores >= (config.score_threshold or 0.0)).sum())
    if count == 0:
        limit = "token budget" if config.token_budgets is not None else f"score_threshold {config.score_threshold}"
        raise UsageError(f"corpus.rounds: round {number} collects no page; the {limit} is too strict for this crawl")
    return {int(p) for p in order[:count]}, float(scores[order[count - 1]])


def _estimate_tokens(crawl: Crawl, tokenizer: Tokenizer) -> Tokens:
    """Tokens of every page: its characters, times the tokens a character of a sample. Shards are counted exactly."""
    sample = range(0, len(crawl), max(1, len(crawl) // SAMPLE_PAGES))
    tokens = sum(len(ids) for ids in tokenizer.encode(crawl.page(p).text for p in sample))
    per_character = tokens / sum(crawl.characters[p] for p in sample)
    return np.array(crawl.characters) * per_character


def _known_positions(stage: Stage, config: RoundsConfig, crawl: Crawl) -> set[int]:
    if config.known_pages is None:
        return set()
    try:
        lines = stage.read_file(config.known_pages).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"corpus.rounds.known_pages: {config.known_pages} is not UTF-8 text, one URL a line") from None
    known = {canonical_url(line) for line in lines if line.strip()}
    found = {p for p, key in enumerate(crawl.keys) if key in known}
    if not found:  # as when a profile is tried on another crawl
        print(f"corpus: the crawl has none of the {len(known)} pages of {config.known_pages}; recall is not measured")
    return found


def _annotations(stage: Stage, config: RoundsConfig, crawl: Crawl) -> list[PathRule]:
    if config.annotations is None:
        return []
    return read_annotations(stage.read_file(config.annotations), {domain_of(k) for k in crawl.keys})
