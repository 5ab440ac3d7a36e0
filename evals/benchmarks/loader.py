"""A benchmark as data: its YAML, its problems, its prompts, its judge.

In: a BenchmarkRun of the profile. Out: a Benchmark with its problems. Adding a benchmark takes a YAML and no code.
A record without a question or with a gold answer that cannot be found is left out and counted, never scored.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import PositiveInt, ValidationError, model_validator

from evals.benchmarks.records import Choices, Fields, Problem, problem_of
from evals.config import BenchmarkRun
from evals.equivalence import is_correct
from evals.extraction import Method, choice_letters, extract_answer
from evals.normal_form import normalize
from evals.prompts import (
    CHAT_STOP,
    PROGRAM_INSTRUCTIONS,
    TOOL_INSTRUCTIONS,
    Prompt,
    Shots,
    chat_message,
    chat_prompt,
    few_shot_prompt,
)
from stage import UsageError, read_jsonl
from stage.section import Section

METRICS: dict[str, Callable[[str, str], bool]] = {
    "equivalence": is_correct,
    "exact": lambda gold, answer: normalize(gold) == normalize(answer),
    "choice": lambda gold, answer: bool(choice_letters(gold)) and choice_letters(gold) == choice_letters(answer),
}


class Data(Section):
    """Where the problems come from: a data set of the `datasets` library, a JSONL file, or the demo's generator."""

    dataset: str | None = None
    configs: tuple[str, ...] = ()  # of the data set, one after the other; none: its default
    split: str = "test"
    path: str | None = None  # relative to the YAML
    generator: Literal["word_problems"] | None = None
    problems: PositiveInt = 200  # how many the generator makes

    @model_validator(mode="after")
    def _one_source(self) -> "Data":
        if sum(x is not None for x in (self.dataset, self.path, self.generator)) != 1:
            raise ValueError("data needs exactly one of dataset, path, generator")
        return self


class BenchmarkSpec(Section):
    """A benchmark's YAML."""

    title: str
    language: Literal["en", "zh"] = "en"
    data: Data
    fields: Fields = Fields()
    choices: Choices = Choices()
    gold: tuple[Method, ...] = ("plain",)  # how the answer field tells the gold answer
    instruction: str = ""
    few_shot: str | None = None  # a YAML of worked examples, relative to this one
    few_shot_programs: str | None = None  # the same for mode pot
    extraction: tuple[Method, ...]  # how an output tells its answer
    metric: Literal["equivalence", "exact", "choice"] = "equivalence"


@dataclass(frozen=True)
class Benchmark:
    """A loaded benchmark."""

    name: str
    spec: BenchmarkSpec
    problems: list[Problem]
    shots: Shots | None
    mode: Literal["cot", "pot", "tool"] = "cot"

    @property
    def title(self) -> str:
        """For people, with the mode unless it is the usual one."""
        return self.spec.title + {"cot": "", "pot": ", programs", "tool": ", with tools"}[self.mode]

    @property
    def instruction(self) -> str:
        """What follows the question in the chat form."""
        texts = {"cot": {}, "pot": PROGRAM_INSTRUCTIONS, "tool": TOOL_INSTRUCTIONS}[self.mode]
        return texts.get(self.spec.language, self.spec.instruction)

    def prompt(self, problem: Problem, few_shot: bool) -> Prompt:
        """What a model is asked: worked examples before the question if wanted and there are any, else chat."""
        if few_shot and self.shots is not None:
            return Prompt(few_shot_prompt(problem.question, self.shots), self.shots.stop)
        message = chat_message(problem.question, self.instruction)
        return Prompt(chat_prompt(problem.question, self.instruction), CHAT_STOP, message)

    def judge(self, gold: str, text: str) -> tuple[str | None, bool]:
        """The answer that an output gives, and whether it is right."""
        answer = extract_answer(text, self.spec.extraction)
        return answer, answer is not None and self.same(gold, answer)

    def same(self, gold: str, answer: str) -> bool:
        """Whether an answer is the gold answer, by the benchmark's metric."""
        return METRICS[self.spec.metric](gold, answer)


def load(run: BenchmarkRun, seed: int, drop: Callable[[str], object]) -> Benchmark:
    """The benchmark of `run` with its first `limit` problems; `drop` is called with the reason for each left out."""
    benchmark = rules(run)
    name, spec, problems = benchmark.name, benchmark.spec, benchmark.problems
    for number, record in enumerate(_records(run, spec, seed)):
        if run.limit is not None and len(problems) == run.limit:
            break
        problem = problem_of(number, record, spec.fields, spec.choices, spec.gold)
        if isinstance(problem, Problem):
            problems.append(problem)
        else:
            drop(f"{name}: {problem}")
    if not problems:
        raise UsageError(f"benchmark {name}: no usable problem; fields expected: {spec.fields.model_dump()}")
    return benchmark


def rules(run: BenchmarkRun) -> Benchmark:
    """The benchmark of `run` without its problems: its prompts, its judge."""
    spec = read_spec(run.yaml_path)
    examples = {"cot": spec.few_shot, "pot": spec.few_shot_programs, "tool": None}[run.mode]
    shots = _shots(run.yaml_path.parent / examples) if examples else None
    return Benchmark(run.key, spec, [], shots, run.mode)


def read_spec(path: Path) -> BenchmarkSpec:
    """The YAML at `path`, or a UsageError that names the key."""
    try:
        return BenchmarkSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error).replace("\n", " ")
        raise UsageError(f"{path}: {what}") from None


def _records(run: BenchmarkRun, spec: BenchmarkSpec, seed: int) -> Iterator[dict[str, Any]]:
    data = spec.data
    if run.path is not None or data.path is not None:
        yield from read_jsonl(Path(run.path) if run.path else run.yaml_path.parent / str(data.path))
    elif data.generator is not None:
        from evals.benchmarks.word_problems import generate

        yield from (vars(p) for p in generate("test", run.limit or data.problems, seed))
    else:
        yield from _dataset(data)


def _dataset(data: Data) -> Iterator[dict[str, Any]]:
    from datasets import load_dataset

    for config in data.configs or (None,):
        try:
            rows = load_dataset(data.dataset, config, split=data.split)
        except Exception as error:  # the hub's own errors are many and need not be told apart
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UsageError(
                f"data set {data.dataset} could not be loaded ({reason}); set the benchmark's path to a local JSONL"
            ) from None
        yield from rows


def _shots(path: Path) -> Shots:
    if not path.is_file():
        raise UsageError(f"few-shot examples {path} do not exist")
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    examples = tuple((e["question"], e["solution"]) for e in raw["examples"])
    return Shots(raw["layout"], tuple(raw["stop"]), examples)
