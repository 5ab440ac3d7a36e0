"""The table of stages: what each one runs, what it reads, and which parts of the profile decide its result.

Everything the pipeline knows about a stage stands here; planning, executors and status only look it up. The order of
`STAGES` is the order of a run.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from stage import UsageError

if TYPE_CHECKING:
    from pipeline.config import Profile


@dataclass(frozen=True)
class InputFile:
    """A file, a folder (all files in it) or a glob that the profile names at `key`."""

    key: str
    pattern: str

    def expand(self) -> list[Path]:
        """The files meant, sorted; empty when there are none."""
        path = Path(self.pattern)
        if path.is_dir():
            return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        if path.is_file():
            return [path]
        return sorted(Path(p) for p in glob.glob(self.pattern, recursive=True) if Path(p).is_file())


@dataclass(frozen=True)
class StageSpec:
    """One stage. `sections` are the profile's keys that it may read: they, and nothing else, enter its fingerprint."""

    name: str
    module: str
    script: str  # in slurm/
    sections: tuple[str, ...]
    inputs: Callable[[Profile], tuple[str, ...]]  # the earlier stages whose output it reads
    files: Callable[[Profile], list[InputFile]]
    torchrun: bool = False  # started once for every process of <stage>.parallel, or once


def _tokenizer(profile: Profile) -> list[InputFile]:
    return [InputFile("tokenizer", profile.tokenizer)]


def _corpus_files(profile: Profile) -> list[InputFile]:
    corpus = profile.corpus
    named: list[tuple[str, str | None]] = [(f"inputs.{i}", path) for i, path in enumerate(corpus.inputs)]
    named += [("seed.path", corpus.seed.path), ("rounds.annotations", corpus.rounds.annotations)]
    named += [("rounds.known_pages", corpus.rounds.known_pages)]
    named += [(f"decontamination.benchmarks.{i}.path", b.path) for i, b in enumerate(corpus.decontamination.benchmarks)]
    named += [(f"sources.{i}.path", source.path) for i, source in enumerate(corpus.sources)]
    local = [InputFile(f"corpus.{key}", path) for key, path in named if path and "://" not in path]
    return _tokenizer(profile) + local


def _pretrain_files(profile: Profile) -> list[InputFile]:
    start = profile.model.init_from
    return _tokenizer(profile) + ([InputFile("model.init_from", start)] if start else [])


def _sft_files(profile: Profile) -> list[InputFile]:
    named = [(f"sft.sources.{i}.path", source.path) for i, source in enumerate(profile.sft.sources)]
    return _tokenizer(profile) + [InputFile(key, path) for key, path in named if path]


def _question_files(section: str) -> Callable[[Profile], list[InputFile]]:
    def files(profile: Profile) -> list[InputFile]:
        path = getattr(profile, section).questions.path
        return _tokenizer(profile) + ([InputFile(f"{section}.questions.path", path)] if path else [])

    return files


def _evals_files(profile: Profile) -> list[InputFile]:
    """The benchmarks' YAML files with what these name, and the profile's own data for them."""
    files = _tokenizer(profile)
    for i, run in enumerate(profile.evals.benchmarks):
        files += [InputFile(f"evals.benchmarks.{i}.name", _from_here(path)) for path in _benchmark_files(run.yaml_path)]
        if run.path:
            files.append(InputFile(f"evals.benchmarks.{i}.path", run.path))
    return files


def _evals_inputs(profile: Profile) -> tuple[str, ...]:
    """The checkpoints measured; the report shows the reward model beside the policy."""
    checkpoints = tuple(profile.evals.checkpoints)
    return (*checkpoints, "reward") if "grpo" in checkpoints else checkpoints


def _benchmark_files(description: Path) -> list[Path]:
    spec = yaml.safe_load(description.read_text())
    named = (spec.get("few_shot"), spec.get("few_shot_programs"), spec["data"].get("path"))
    return [description, *(description.parent / name for name in named if name)]


def _from_here(path: Path) -> str:
    """Relative to the working directory where it lies below it, so that a checkout may move."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


STAGES: tuple[StageSpec, ...] = (
    StageSpec(
        "corpus", "corpus.mine", "stage0_corpus.sh", ("seed", "tokenizer", "corpus"), lambda _: (), _corpus_files
    ),
    StageSpec(
        "pretrain",
        "pretrain.train",
        "stage1_pretrain.sh",
        ("seed", "tokenizer", "model", "pretrain"),
        lambda _: ("corpus",),
        _pretrain_files,
        torchrun=True,
    ),
    StageSpec(
        "sft",
        "sft.train",
        "stage2_sft.sh",
        ("seed", "tokenizer", "model", "sft"),
        lambda _: ("pretrain",),
        _sft_files,
        torchrun=True,
    ),
    StageSpec(
        "reward",
        "rl.reward.train",
        "stage2_reward.sh",
        ("seed", "tokenizer", "model", "reward", "server"),
        lambda _: ("sft",),
        _question_files("reward"),
        torchrun=True,
    ),
    StageSpec(
        "grpo",
        "rl.train",
        "stage3_grpo.sh",
        ("seed", "tokenizer", "model", "grpo", "server"),
        lambda profile: ("sft", "reward") if profile.grpo.reward == "reward_model" else ("sft",),
        _question_files("grpo"),
        torchrun=True,
    ),
    StageSpec(
        "evals",
        "evals.run",
        "stage4_evals.sh",
        ("seed", "tokenizer", "evals", "server"),
        _evals_inputs,
        _evals_files,
    ),
)

STAGE_NAMES = tuple(spec.name for spec in STAGES)


def select(expression: str, names: Sequence[str] = STAGE_NAMES) -> list[str]:
    """The stages an expression means, in running order: `all`, `grpo,evals`, `sft..`, `..sft`, `sft..grpo`."""
    chosen: set[str] = set()
    for part in (p.strip() for p in expression.split(",")):
        first, dots, last = part.partition("..")
        if part == "all":
            chosen.update(names)
        elif dots:
            begin = _position(first, names) if first else 0
            end = _position(last, names) if last else len(names) - 1
            if begin > end:
                raise UsageError(f"--stages: {part!r} runs backwards; {last} comes before {first}")
            chosen.update(names[begin : end + 1])
        else:
            chosen.add(names[_position(part, names)])
    return [name for name in names if name in chosen]


def _position(name: str, names: Sequence[str]) -> int:
    if name in names:
        return names.index(name)
    close = get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UsageError(f"unknown stage {name!r}; {hint}stages are {', '.join(names)}")
