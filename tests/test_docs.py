"""The documentation against the repository: links lead somewhere, and the commands and options it names exist."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
COMMAND = re.compile(r"python -m ((?:corpus|pretrain|sft|rl|evals|pipeline)(?:\.\w+)+)([^\n`]*)")
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))


@cache
def help_of(module: str) -> str:
    command = [sys.executable, "-m", module, "--help"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


@by_page
def test_commands_have_the_options_that_are_shown(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    shown = {(m[1], flag) for m in COMMAND.finditer(text) for flag in re.findall(r"(?<=\s)--[a-z][\w-]*", before(m[2]))}
    assert not {(module, flag) for module, flag in shown if flag not in help_of(module)}


def before(words: str) -> str:
    """A command without its comment and what is piped or chained to it."""
    return re.split(r"\s[#|]|&&|;", words)[0]
