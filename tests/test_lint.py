"""ruff and mypy are part of the suite, so that one command tells whether a change is fit."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "arguments", (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]), ids=" ".join
)
def test_is_clean(arguments: list[str], repository: object) -> None:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=str(repository), capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
