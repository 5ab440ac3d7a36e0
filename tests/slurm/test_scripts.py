"""The Slurm scripts against the table of stages and the 7b profile, without a Slurm."""

import re
import subprocess
from pathlib import Path

import pytest

from pipeline.config import Profile, load_profile
from pipeline.stages import STAGES, StageSpec

each_stage = pytest.mark.parametrize("spec", STAGES, ids=lambda spec: spec.name)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("7b")


def sbatch_options(script: Path) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", script.read_text(), re.MULTILINE))


@each_stage
def test_script_starts_its_stage(spec: StageSpec, repository: Path) -> None:
    script = repository / "slurm" / spec.script
    assert script.read_text().splitlines()[-1] == f"run_stage {spec.name}"
    assert script.stat().st_mode & 0o111


@each_stage
def test_script_asks_for_what_the_7b_profile_needs(spec: StageSpec, profile: Profile, repository: Path) -> None:
    asked, training = sbatch_options(repository / "slurm" / spec.script), profile.training(spec.name)
    slurm = profile.slurm.of(spec.name)  # type: ignore[arg-type]
    assert int(asked["nodes"]) == (training.parallel.nnodes if training else 1)
    assert int(asked.get("gpus-per-node", 0)) == slurm.gpus_per_node
    assert asked["time"] == slurm.time
    assert asked["signal"].startswith("B:USR1@")


def test_scripts_are_valid_bash(repository: Path) -> None:
    for script in sorted((repository / "slurm").glob("*.sh")):
        done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
