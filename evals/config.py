"""Settings of the evaluation. Defaults are the paper's: greedy accuracy and Maj@64."""

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from stage import UsageError
from stage.section import Section

BENCHMARKS = Path(__file__).parent / "benchmarks"


class BenchmarkRun(Section):
    """One benchmark of the evaluation and how much of it."""

    name: str  # a file of evals/benchmarks/ without its .yaml, or the path of a YAML of your own
    path: str | None = None  # a local JSONL in place of the benchmark's data set
    limit: PositiveInt | None = None  # the first problems only; None: all
    num_samples: int = Field(default=64, ge=0)  # K of Maj@K and Pass@K; 0: greedy only
    max_new_tokens: PositiveInt = 1024
    mode: Literal["cot", "pot", "tool"] = "cot"  # prose; a program whose output is the answer; prose and programs
    max_rounds: PositiveInt = 4  # of mode tool: how often the model may write on; ToRA's inference has 4
    few_shot: bool = True  # whether `few_shot_checkpoints` get the benchmark's examples

    @model_validator(mode="after")
    def _known(self) -> "BenchmarkRun":
        if not self.yaml_path.is_file():
            known = ", ".join(sorted(p.stem for p in BENCHMARKS.glob("*.yaml")))
            raise ValueError(f"unknown benchmark {self.name!r}; use one of {known}, or the path of a YAML file")
        return self

    @classmethod
    def of_key(cls, key: str) -> "BenchmarkRun":
        """The run that writes under `key`. Raises UsageError for none."""
        name, dash, mode = key.rpartition("-")
        fields = {"name": name, "mode": mode} if dash and mode in ("pot", "tool") else {"name": key}
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise UsageError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None

    @property
    def key(self) -> str:
        """The benchmark's name in files and reports, with the mode unless it is the usual one."""
        return self.yaml_path.stem + ("" if self.mode == "cot" else f"-{self.mode}")

    @property
    def yaml_path(self) -> Path:
        """The file that describes the benchmark."""
        return Path(self.name) if self.name.endswith(".yaml") else BENCHMARKS / f"{self.name}.yaml"


class SandboxConfig(Section):
    """Where the programs of the modes pot and tool run, and what one of them may use."""

    url: str | None = None  # of a SandboxFusion server; None: in processes of this machine
    workers: PositiveInt | None = None  # None: one a core
    seconds: PositiveFloat = 10.0
    memory_mb: PositiveInt = 1024


class EvalsConfig(Section):
    """What to measure. Checkpoints are compared in the order given, each with the one before it."""

    checkpoints: list[Literal["pretrain", "sft", "grpo"]] = Field(["pretrain", "sft", "grpo"], min_length=1)
    few_shot_checkpoints: list[Literal["pretrain", "sft", "grpo"]] = Field(["pretrain"])  # base models: not tuned
    benchmarks: list[BenchmarkRun] = Field(
        [BenchmarkRun(name="gsm8k"), BenchmarkRun(name="math"), BenchmarkRun(name="cmath")], min_length=1
    )
    sandbox: SandboxConfig = SandboxConfig()
    temperature: PositiveFloat = 0.7  # of the K samples; the accuracy is greedy
    top_p: float = Field(0.95, gt=0, le=1)
    batch_size: PositiveInt = 256  # completions asked of the server at once
    confidence: float = Field(0.95, gt=0, lt=1)  # of the intervals
    bootstrap_draws: PositiveInt = 2000
    report_samples: PositiveInt = 2000  # completions the viewer of report.html holds; the files hold all
    report_rollouts: PositiveInt = 2000  # GRPO's outputs there, in whole groups from the whole training

    @model_validator(mode="after")
    def _named_once(self) -> "EvalsConfig":
        for what, names in (("checkpoints", self.checkpoints), ("benchmarks", [b.key for b in self.benchmarks])):
            if len(set(names)) < len(names):
                raise ValueError(f"{what} names something twice: {list(names)}")
        return self
