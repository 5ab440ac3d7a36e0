"""The rules that keep the packages one system: what may import what, how large a module may be, what stays light."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

# Imports only go down: a package imports itself and packages of lower floors.
FLOORS = {"stage": 0, "evals": 1, "corpus": 2, "pretrain": 2, "sft": 3, "rl": 4, "pipeline": 5}
# … and these not even there, inside functions included.
FORBIDDEN = {
    "stage": {"torch", "megatron", "sglang", "transformers", "numpy", "pydantic"},
    "evals": {"megatron"},
    "corpus": {"torch", "megatron", "sglang"},
    "pretrain": {"evals", "sglang"},
    "sft": {"sglang"},
    "rl": {"corpus"},
    "pipeline": {"torch", "megatron", "sglang", "transformers"},
}
EXCEPTION = ("stage/section.py", "pydantic")  # and nothing of stage/ imports it
HEAVY = ("torch", "megatron", "sglang", "transformers", "datasets", "tokenizers", "fasttext", "sympy", "numpy", "scipy")
COMMANDS = (
    "corpus.mine",
    "corpus.show",
    "pretrain.train",
    "sft.train",
    "rl.reward.train",
    "rl.reward.score",
    "rl.train",
    "evals.run",
    "evals.replay",
    "pipeline.run",
    "pipeline.status",
    "pipeline.plan",
    "pipeline.chat",
)
MAX_LINES = 400


def modules(package: str) -> list[Path]:
    return sorted((REPOSITORY / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """The top-level names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("package", FLOORS)
def test_imports_only_go_down(package: str) -> None:
    above = {name for name, floor in FLOORS.items() if name != package and floor >= FLOORS[package]}
    wrong = {
        f"{path.relative_to(REPOSITORY)} imports {name}"
        for path in modules(package)
        for name in imports(path)
        if name in above | FORBIDDEN[package] and (path.relative_to(REPOSITORY).as_posix(), name) != EXCEPTION
    }
    assert not wrong


def test_modules_are_one_idea_long() -> None:
    lengths = {p: len(p.read_text().splitlines()) for package in FLOORS for p in modules(package)}
    assert not {str(p.relative_to(REPOSITORY)): n for p, n in lengths.items() if n > MAX_LINES}


def test_every_module_says_what_it_is_for() -> None:
    silent = [p for package in FLOORS for p in modules(package) if not ast.get_docstring(ast.parse(p.read_text()))]
    assert not [str(p.relative_to(REPOSITORY)) for p in silent]


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for package in FLOORS for path in modules(package)}
    assert not [str(f.relative_to(REPOSITORY)) for f in folders if not (f / "__init__.py").is_file()]


def test_importing_a_package_imports_no_engine() -> None:
    code = f"import sys; import {', '.join(FLOORS)}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", COMMANDS)
def test_help_answers_without_importing_an_engine(module: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", module, "--help"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    assert done.stdout.startswith("usage:")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not imported & set(HEAVY)


def test_no_file_names_the_machine_it_was_written_on() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    personal = re.compile(rb"/(?:work|home/\w+|Users/\w+)/\w")
    files = [REPOSITORY / name for name in listed.stdout.splitlines()]
    texts = {p: p.read_bytes() for p in files if p.suffix not in {".gz", ".bin", ".png"} and p.is_file()}
    assert not [str(p.relative_to(REPOSITORY)) for p, text in texts.items() if personal.search(text)]
