"""Domain discovery: a domain of which much was collected is about mathematics, and so are the rest of its pages.

Comes in: the canonical URLs of the crawl and which of them were collected. Goes out: the domains over the paper's 10%,
paths inside them (`/questions`) with a proposal to keep or not, and the pages that the kept paths add to the seed.

A person annotates by editing the proposals of a round (YAML: a list of domain, path, keep) and naming the file in
`corpus.rounds.annotations`. Automatic mode takes the proposals as they are, annotations of the same path first.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from corpus.config import RoundsConfig
from corpus.dedup import domain_of
from stage import UsageError


@dataclass(frozen=True)
class PathRule:
    """Pages of `domain` whose path starts with `path` are mathematical, or (keep false) are not."""

    domain: str
    path: str
    keep: bool


@dataclass(frozen=True)
class Proposal:
    """A path inside a discovered domain, what was seen there, and what the automatic mode makes of it."""

    domain: str
    path: str
    pages: int
    collected: int
    keep: bool


def path_of(key: str) -> str:
    """Path and query of a canonical URL, from the slash on."""
    return "/" + key.removeprefix(domain_of(key)).removeprefix("/")


def discover(keys: Iterable[str], collected: set[str], config: RoundsConfig) -> list[Proposal]:
    """Paths of every domain of which more than `domain_share` was collected, in order of domain and path."""
    by_domain: dict[str, list[str]] = {}
    for key in sorted(keys):
        by_domain.setdefault(domain_of(key), []).append(key)
    proposals = []
    for domain, inside in by_domain.items():
        share = sum(k in collected for k in inside) / len(inside)
        if len(inside) >= config.domain_min_pages and share > config.domain_share:
            proposals += _paths(domain, inside, collected, config)
    return proposals


def read_annotations(file: Path, known_domains: set[str]) -> list[PathRule]:
    """The rules of an annotations file; anything odd in it is an error that names the entry."""
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(entries, list):
        raise UsageError(f"{file}: expected a list of entries with domain, path and keep")
    rules = []
    for number, entry in enumerate(entries, 1):
        where = f"{file}: entry {number}"
        if not isinstance(entry, dict) or not {"domain", "path", "keep"} <= entry.keys():
            raise UsageError(f"{where}: expected the keys domain, path and keep, got {entry!r}")
        if not str(entry["path"]).startswith("/") or not isinstance(entry["keep"], bool):
            raise UsageError(f"{where}: path must start with '/' and keep must be true or false, got {entry!r}")
        if entry["domain"] not in known_domains:
            raise UsageError(f"{where}: the crawl has no page of domain '{entry['domain']}'")
        rules.append(PathRule(entry["domain"], str(entry["path"]), entry["keep"]))
    return rules


def write_proposals(file: Path, proposals: list[Proposal]) -> None:
    """The proposals as a file that a person edits into annotations."""
    entries = [asdict(p) for p in proposals]
    file.write_text(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True), encoding="utf-8")


def kept_by(rules: Iterable[PathRule], keys: Iterable[str]) -> set[str]:
    """The URLs under a kept path; where several rules match, the longest path decides, the later rule among equals."""
    decisions = {(rule.domain, rule.path): rule.keep for rule in rules}
    lengths = sorted({len(path) for _, path in decisions}, reverse=True)

    def keep(key: str) -> bool:
        domain, path = domain_of(key), path_of(key)
        return next((k for n in lengths if (k := decisions.get((domain, path[:n]))) is not None), False)

    return {key for key in keys if keep(key)}


def _paths(domain: str, keys: list[str], collected: set[str], config: RoundsConfig) -> list[Proposal]:
    """Top down: a path collected to `path_share` is proposed whole, otherwise the larger paths below it are."""
    found: list[Proposal] = []
    pending = [("/", keys)]
    while pending:
        prefix, inside = pending.pop()
        hits = sum(k in collected for k in inside)
        if hits >= config.path_share * len(inside):
            found.append(Proposal(domain, prefix, len(inside), hits, keep=True))
            continue
        below: dict[str, list[str]] = {}
        for key in inside:
            if child := _child(path_of(key), prefix):
                below.setdefault(child, []).append(key)
        children = [(child, pages) for child, pages in below.items() if len(pages) >= config.domain_min_pages]
        if not children:
            found.append(Proposal(domain, prefix, len(inside), hits, keep=False))
        pending += children
    return sorted(found, key=lambda p: p.path)


def _child(path: str, prefix: str) -> str | None:
    """The directory one level below `prefix` on the way to `path`; None when the page lies in `prefix` itself."""
    rest = path[len(prefix) :]
    return prefix + rest.split("/", 1)[0] + "/" if "/" in rest else None
