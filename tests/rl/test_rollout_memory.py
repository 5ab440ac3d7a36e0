"""Where new weights are put for the server, and what a killed run leaves there."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rl.rollout import shared_memory
from rl.rollout.shared_memory import PREFIX, place_for, remove_orphans


def test_weights_that_do_not_fit_in_memory_go_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "MEMORY", tmp_path)
    free = shutil.disk_usage(tmp_path).free
    assert place_for(free // 4) == tmp_path
    assert place_for(free * 2) == Path(tempfile.gettempdir())


def test_a_host_without_shared_memory_uses_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "MEMORY", tmp_path / "none")
    assert place_for(1) == Path(tempfile.gettempdir())


def test_only_the_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"{PREFIX}-{ended.pid}-3-abc", f"{PREFIX}-{os.getpid()}-3-abc", f"{PREFIX}-notes", "other"]
    for name in names:
        (tmp_path / name).mkdir()
    remove_orphans(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names[1:])
