"""Fixtures shared by the whole suite."""

import os
from pathlib import Path

import pytest

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
