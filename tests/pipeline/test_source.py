"""Which code a stage's fingerprint covers."""

from pathlib import Path

import pytest

from pipeline.source import code_version, source_files
from pipeline.stages import STAGES, StageSpec


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "a/__init__.py": "",
        "a/train.py": "import json\nfrom b import maths\n\ndef body():\n    from .inner import helper\n",
        "a/inner.py": "from b.deep.leaf import f\nSERVER = ['-m', 'c.server']\nTEMPLATE = 'page.html'\n",
        "a/page.html": "<p>",
        "a/unused.html": "<p>",
        "b/__init__.py": "",
        "b/maths.py": "",
        "b/other.py": "",
        "b/deep/__init__.py": "",
        "b/deep/leaf.py": "",
        "c/server.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_are_followed_into_functions_and_packages_and_named_programs(root: Path) -> None:
    found = [str(p.relative_to(root)) for p in source_files("a.train", root)]
    assert found == [
        "a/__init__.py",
        "a/inner.py",
        "a/page.html",
        "a/train.py",
        "b/__init__.py",
        "b/deep/__init__.py",
        "b/deep/leaf.py",
        "b/maths.py",
        "c/server.py",
    ]


@pytest.mark.parametrize("name", ["a/inner.py", "b/deep/leaf.py", "c/server.py", "a/page.html"])
def test_edit_of_reached_code_changes_the_version(root: Path, name: str) -> None:
    before = code_version("a.train", root)
    (root / name).write_text((root / name).read_text() + "# edited\n")
    _forget()
    assert code_version("a.train", root) != before


@pytest.mark.parametrize("name", ["b/other.py", "a/unused.html"])
def test_edit_of_other_code_does_not(root: Path, name: str) -> None:
    before = code_version("a.train", root)
    (root / name).write_text("# edited\n")
    _forget()
    assert code_version("a.train", root) == before


def _forget() -> None:
    """Drop the cache of parsed files: a process normally sees each file once."""
    from pipeline import source

    source._mentions.cache_clear()


@pytest.mark.parametrize("spec", STAGES, ids=lambda s: s.name)
def test_stages_reach_their_own_code_and_never_the_pipeline(spec: StageSpec, repository: Path) -> None:
    found = {str(p.relative_to(repository)) for p in source_files(spec.module)}
    assert {spec.module.replace(".", "/") + ".py", "stage/context.py"} <= found
    assert not [p for p in found if p.startswith(("pipeline/", "tests/"))]


def test_editing_evals_does_not_rerun_pretraining(repository: Path) -> None:
    found = {str(p.relative_to(repository)) for p in source_files("pretrain.train")}
    assert "pretrain/engine.py" in found
    assert not [p for p in found if p.startswith(("evals/", "rl/", "sft/", "corpus/"))]
