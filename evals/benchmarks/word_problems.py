"""The demo's task: arithmetic word problems in English and Chinese, answered in GSM8K's format.

A model of a few million parameters cannot do GSM8K; these problems it can learn. Each tells a short story of
addition, subtraction and multiplication in two or three steps; the solution has one line a step and ends in
`#### answer`. The generator is seeded and endless. Train and test are disjoint in their arithmetic, not just in
their words: the chain of operations and numbers ("12+7-5") decides by hash which split a problem belongs to.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "test"]
TEST_SHARE = 10  # one chain in ten belongs to the test split
LARGEST = 60  # no value in a story exceeds it

NAMES = {"en": ["Tom", "Ann", "Ben", "Mia", "Sam", "Lily"], "zh": ["小明", "小红", "小华", "小丽", "小刚", "小芳"]}
THINGS = {
    "en": ["apples", "books", "pens", "cards", "coins", "stamps"],
    "zh": ["个苹果", "本书", "支笔", "张卡片", "枚硬币", "张邮票"],
}
BEGIN = {"en": "{name} has {a} {thing}.", "zh": "{name}有{a}{thing}。"}
BEGIN_PRODUCT = {"en": "{name} has {a} boxes of {b} {thing} each.", "zh": "{name}有{a}盒,每盒{b}{thing}。"}
STORY = {
    "+": {
        "en": ["{name} buys {a} more.", "{name} finds {a} more.", "{friend} gives {name} {a} more."],
        "zh": ["{name}又买了{a}{thing}。", "{name}又找到{a}{thing}。", "{friend}又给{name}{a}{thing}。"],
    },
    "-": {
        "en": ["{name} gives {a} to {friend}.", "{name} loses {a}.", "{name} sells {a}."],
        "zh": ["{name}送给{friend}{a}{thing}。", "{name}丢了{a}{thing}。", "{name}卖掉{a}{thing}。"],
    },
    "*": {
        "en": ["Then the number grows to {a} times as many.", "{friend} makes it {a} times as many."],
        "zh": ["后来数量变成原来的{a}倍。", "{friend}把数量变成原来的{a}倍。"],
    },
}
ASK = {"en": "How many {thing} does {name} have now?", "zh": "{name}现在有多少{thing}?"}


@dataclass(frozen=True)
class Problem:
    """One problem. `solution` is one line a step, then `#### answer`; `chain` is its arithmetic, such as "12+7-5"."""

    question: str
    solution: str
    answer: str
    language: str
    steps: int
    chain: str


def generate(split: Split, n: int, seed: int) -> list[Problem]:
    """`n` distinct problems of `split`, the same for the same seed. Raises ValueError for an unknown split."""
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    problems: dict[str, Problem] = {}
    for problem in _stream(random.Random(f"{split}-{seed}")):
        if len(problems) == n:
            break
        if split_of(problem.chain) == split:
            problems.setdefault(problem.question, problem)
    return list(problems.values())


def split_of(chain: str) -> Split:
    """The split that owns a chain of arithmetic."""
    return "test" if hashlib.sha256(chain.encode()).digest()[0] % TEST_SHARE == 0 else "train"


def _stream(rng: random.Random) -> Iterator[Problem]:
    while True:
        problem = _draw(rng)
        if problem is not None:
            yield problem


def _draw(rng: random.Random) -> Problem | None:
    language = rng.choice(["en", "zh"])
    name, friend = rng.sample(NAMES[language], 2)
    words = {"name": name, "friend": friend, "thing": rng.choice(THINGS[language])}
    steps = rng.choice([2, 3])
    lines: list[str] = []
    if rng.random() < 0.5:
        a, b = rng.randint(2, 5), rng.randint(2, 9)
        value, chain = a * b, f"{a}*{b}"
        lines.append(f"{a}*{b}={value}")
        told = [BEGIN_PRODUCT[language].format(a=a, b=b, **words)]
    else:
        value = rng.randint(3, 20)
        chain = str(value)
        told = [BEGIN[language].format(a=value, **words)]
    while len(lines) < steps:
        op = rng.choice("++--*")
        a = rng.randint(2, 3) if op == "*" else rng.randint(2, 9)
        after = value * a if op == "*" else value + a if op == "+" else value - a
        if not 0 < after <= LARGEST:
            return None
        told.append(rng.choice(STORY[op][language]).format(a=a, **words))
        lines.append(f"{value}{op}{a}={after}")
        chain += f"{op}{a}"
        value = after
    told.append(ASK[language].format(**words))
    question = (" " if language == "en" else "").join(told)
    return Problem(question, "\n".join([*lines, f"#### {value}"]), str(value), language, steps, chain)
