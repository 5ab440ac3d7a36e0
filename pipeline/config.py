"""The profile: one typed description of a whole run, composed of the sections that the packages define.

In: a profile's name or path and `key.sub=value` overrides. Out: a `Profile`, or a UsageError of one line that names
the key, what it got and what would do. Whether the input files exist is asked later, by the plan.
"""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, NonNegativeInt, StringConstraints, ValidationError

from corpus.config import CorpusConfig
from evals.config import EvalsConfig
from evals.server_config import ServerConfig
from pipeline import checks, profile_error
from pretrain.config import ModelConfig, PretrainConfig, TrainingConfig
from rl.config import GrpoConfig, RewardConfig
from sft.config import SftConfig
from stage import UsageError
from stage.section import Section

PROFILES = Path(__file__).parent / "profiles"
StageName = Literal["corpus", "pretrain", "sft", "reward", "grpo", "evals"]


def _slurm_time(given: object) -> str:
    if not re.fullmatch(r"(\d+-)?\d+(:\d\d){0,2}", str(given)):
        raise ValueError(f"expected a time limit such as 30 (minutes), 12:00:00 or 2-00:00:00, got {given!r}")
    return str(given)


SlurmTime = Annotated[str, BeforeValidator(_slurm_time)]


class SlurmStage(Section):
    """What one stage asks of Slurm in place of the settings for all."""

    time: SlurmTime | None = None
    gpus_per_node: NonNegativeInt | None = None
    sbatch_args: tuple[str, ...] | None = None


class SlurmConfig(Section):
    """How stages are submitted. The number of nodes is each stage's own `parallel.nnodes`."""

    partition: str | None = None  # None: the cluster's default
    account: str | None = None
    time: SlurmTime = "1-00:00:00"
    gpus_per_node: NonNegativeInt = 8
    sbatch_args: tuple[str, ...] = ()  # passed to sbatch as they are: --exclusive, --constraint=…
    stages: dict[StageName, SlurmStage] = Field(default_factory=dict)

    def of(self, stage: StageName) -> "SlurmConfig":
        """The settings for one stage: those for all, with its own in their place."""
        own = self.stages.get(stage)
        return self.model_copy(update=own.model_dump(exclude_none=True)) if own else self


class Profile(Section):
    """Everything a run depends on. Relative paths start at the directory the run is started from."""

    name: Annotated[str, StringConstraints(pattern=r"^[\w.-]+$")]
    seed: int = Field(1234, ge=0)
    tokenizer: str  # folder of a Hugging Face tokenizer
    model: ModelConfig
    corpus: CorpusConfig
    pretrain: PretrainConfig
    sft: SftConfig
    reward: RewardConfig
    grpo: GrpoConfig
    evals: EvalsConfig
    server: ServerConfig = ServerConfig()
    slurm: SlurmConfig = SlurmConfig()

    def training(self, stage: str) -> TrainingConfig | None:
        """The section of a training stage; None for corpus and evals."""
        section = getattr(self, stage)
        return section if isinstance(section, TrainingConfig) else None

    def raw(self) -> dict[str, Any]:
        """The resolved profile as plain data: what profile.yaml holds and fingerprints are made of."""
        return self.model_dump(mode="json")


def load_profile(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Profile:
    """Read the profile `tiny` or `path/to/mine.yaml`, apply overrides like `grpo.kl_coef=0.02`, validate all of it."""
    raw = read_yaml(_find(str(name_or_path)))
    for override in overrides:
        apply_override(raw, override)
    try:
        profile = Profile.model_validate(raw)
    except ValidationError as error:
        raise UsageError(profile_error.first(profile_error.problems(error, Profile))) from None
    if wrong := checks.impossible(profile):
        raise UsageError(profile_error.first(wrong))
    return profile


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")) or "/" in name:
        if not Path(name).is_file():
            raise UsageError(f"--profile: no file {name}")
        return Path(name)
    known = sorted(p.stem for p in PROFILES.glob("*.yaml"))
    if name not in known:
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"--profile: no profile {name!r}; {hint}there are {', '.join(known)}, or give a .yaml file")
    return PROFILES / f"{name}.yaml"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a profile's YAML file."""
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: expected a mapping of profile keys, got {profile_error.shown(raw)}")
    return raw


def apply_override(raw: dict[str, Any], override: str) -> None:
    """Set `a.b.0.c=value` in nested mappings and lists; the value is read as YAML."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UsageError(f"--set {override}: expected KEY.SUBKEY=VALUE, as in grpo.kl_coef=0.02")
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        raise UsageError(f"--set {override}: {text!r} is not a YAML value; quote it") from None
    here: Any = raw
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(here, list):
            here = _set_item(here, part, value, last, ".".join(parts[:depth]))
        elif isinstance(here, dict):
            if last:
                here[part] = value
            elif here.get(part) is None:
                here[part] = {}
            here = here[part]
        else:
            above = ".".join(parts[:depth])
            raise UsageError(f"{above}: has no keys, it is {profile_error.shown(here)} (--set {override})")


def _set_item(items: list[Any], index: str, value: object, last: bool, key: str) -> Any:
    if not index.isdigit() or int(index) >= len(items):
        raise UsageError(
            f"{key}.{index}: {key} is a list of {len(items)}; expected an index from 0 to {len(items) - 1}"
        )
    if last:
        items[int(index)] = value
    return items[int(index)]


class _Loader(yaml.SafeLoader):
    """YAML with the numbers people write: 1e-6 is a number, 24:00:00 is not (PyYAML reads YAML 1.1, which differs).

    A key that stands twice in a mapping is an error; PyYAML would take the last.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, times in keys.items():
            if times > 1:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} stands twice", problem_mark=node.start_mark
                )
        return super().construct_mapping(node, deep)


_EXPONENT = r"[eE][-+]?[0-9]+"
_NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?[0-9][0-9_]*",
    "tag:yaml.org,2002:float": rf"[-+]?([0-9][0-9_]*(\.[0-9_]*({_EXPONENT})?|{_EXPONENT})|\.[0-9]+({_EXPONENT})?)",
}
_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in pairs if tag not in _NUMBERS]
    for start, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^({_pattern})$"), list("-+0123456789."))
