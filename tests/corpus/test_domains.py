"""Domain discovery: which domains and paths are found, what people's annotations change, which pages join the seed."""

from pathlib import Path

import pytest
import yaml

from corpus.config import RoundsConfig
from corpus.domains import PathRule, discover, kept_by, path_of, read_annotations, write_proposals
from stage import UsageError

CONFIG = RoundsConfig(domain_min_pages=5)
QUESTIONS = [f"overflow.net/questions/{i}" for i in range(10)]
USERS = [f"overflow.net/users/{i}" for i in range(10)]
NEWS = [f"news.com/{i}" for i in range(20)]


def test_a_domain_over_ten_percent_is_discovered_and_its_path_proposed() -> None:
    collected = {*QUESTIONS[:6], NEWS[0], NEWS[1]}  # 30% of overflow.net; exactly 10% of news.com is not over 10%
    proposals = discover([*QUESTIONS, *USERS, *NEWS], collected, CONFIG)
    assert [(p.domain, p.path, p.pages, p.collected, p.keep) for p in proposals] == [
        ("overflow.net", "/questions/", 10, 6, True),
        ("overflow.net", "/users/", 10, 0, False),
    ]


def test_a_domain_collected_for_the_most_part_is_proposed_whole() -> None:
    proposals = discover(NEWS, set(NEWS[:15]), CONFIG)
    assert [(p.path, p.keep) for p in proposals] == [("/", True)]


def test_small_domains_say_nothing() -> None:
    assert discover(NEWS[:4], set(NEWS[:4]), CONFIG) == []


def test_the_longest_rule_decides() -> None:
    rules = [PathRule("a.org", "/", True), PathRule("a.org", "/private/", False), PathRule("b.org", "/x", True)]
    keys = ["a.org/1", "a.org/private/2", "b.org/xyz", "b.org/other", "c.org/x"]
    assert kept_by(rules, keys) == {"a.org/1", "b.org/xyz"}


def test_among_equal_paths_the_annotation_overrules_the_proposal() -> None:
    rules = [PathRule("a.org", "/", True), PathRule("a.org", "/", False)]
    assert kept_by(rules, ["a.org/1"]) == set()


def test_proposals_are_a_file_that_can_be_read_as_annotations(tmp_path: Path) -> None:
    proposals = discover([*QUESTIONS, *USERS], set(QUESTIONS), CONFIG)
    write_proposals(tmp_path / "domains.yaml", proposals)
    rules = read_annotations(tmp_path / "domains.yaml", {"overflow.net"})
    assert [(r.path, r.keep) for r in rules] == [(p.path, p.keep) for p in proposals]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"domain": "a.org"}, "expected a list"),
        ([{"domain": "a.org", "path": "/"}], "entry 1: expected the keys"),
        ([{"domain": "a.org", "path": "x", "keep": True}], "path must start with '/'"),
        ([{"domain": "a.org", "path": "/", "keep": "yes"}], "keep must be true or false"),
        ([{"domain": "z.org", "path": "/", "keep": True}], "no page of domain 'z.org'"),
    ],
)
def test_a_wrong_annotation_is_named(tmp_path: Path, entries: object, message: str) -> None:
    file = tmp_path / "annotations.yaml"
    file.write_text(yaml.safe_dump(entries))
    with pytest.raises(UsageError, match=message):
        read_annotations(file, {"a.org"})


def test_path_of_a_front_page_is_a_slash() -> None:
    assert [path_of(k) for k in ("a.org", "a.org/b/c", "a.org?q=1")] == ["/", "/b/c", "/?q=1"]
