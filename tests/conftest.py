"""Fixtures shared by the whole suite."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stage import Stage

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """A folder of larger real data that a clone does not carry; tests that need it skip without it."""
    path = Path(os.environ.get("MATHMILL_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"needs the larger test data: no folder {path} (set MATHMILL_SHARED_DATA)")
    return path


@pytest.fixture
def make_stage(tmp_path: Path) -> Callable[[str, dict[str, Any]], Stage]:
    """The stage `name`, at work in a run directory with this profile."""

    def make(name: str, profile: dict[str, Any]) -> Stage:
        plan = {"stages": {name: {"fingerprint": "f", "inputs": [], "files": []}}, "code_version": "test"}
        (tmp_path / "profile.yaml").write_text(yaml.safe_dump(profile))
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        return Stage(name, tmp_path)

    return make
