"""Answer checking beside Math-Verify, in one run on one core: who is right, and how many checks a second.

    python benchmarks/answer_checking.py [--data DIR] [--per-rule 40]

DIR holds answers/equivalence.jsonl (gold, answer, equal), math/test.jsonl, gsm8k/test.jsonl and
benchmarks/cmath-test.jsonl; default: $MATHMILL_SHARED_DATA, else ../shared/data beside the repository.
Math-Verify is called as its documentation says: verify(parse(gold), parse(answer)).
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import itertools

from benchmarks.rewrites import BREAK, KEEP
from evals import is_correct
from evals.benchmarks.loader import load
from evals.config import BenchmarkRun
from evals.equivalence import quick_verdict

Pair = tuple[str, str]
Checker = Callable[[str, str], bool]


def math_verify(gold: str, answer: str) -> bool:
    """The peer. Bare answers are boxed for it: it finds no maths in `x \\in [1,2]` without a mark."""
    from math_verify import parse, verify

    return bool(
        verify(
            *(
                parse(t if "$" in t or "boxed" in t or "nswer" in t or "答案" in t else rf"\boxed{{{t}}}")
                for t in (gold, answer)
            )
        )
    )


def labelled(path: Path, check: Checker) -> str:
    """Right verdicts on the labelled pairs, wrong ones by kind."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    verdicts = [(r["equal"], check(r["gold"], r["answer"])) for r in rows]
    right = sum(want == got for want, got in verdicts)
    accepts = sum(got and not want for want, got in verdicts)
    refuses = len(rows) - right - accepts
    return f"{right} of {len(rows)} ({right / len(rows):.1%}), {accepts} wrongly accepted, {refuses} wrongly refused"


def rewritten(golds: Sequence[str], per_rule: int) -> tuple[list[Pair], list[Pair]]:
    """(pairs that are equal, pairs that are not) from the rules of rewrites.py."""
    kept, broken = (
        [(g, a) for rule in rules.values() for g, a in list(_apply(rule, golds))[:per_rule]] for rules in (KEEP, BREAK)
    )
    return kept, broken


def _apply(rule: Callable[[str], str | None], golds: Sequence[str]) -> list[Pair]:
    return [(gold, answer) for gold in golds if (answer := rule(gold)) is not None]


def rate(pairs: Sequence[Pair], check: Checker) -> float:
    """Checks a second."""
    began = time.perf_counter()
    for gold, answer in pairs:
        check(gold, answer)
    return len(pairs) / (time.perf_counter() - began)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MATHMILL_SHARED_DATA", beside)))
    parser.add_argument("--per-rule", type=int, default=40, help="pairs of each rewriting rule")
    args = parser.parse_args()
    checkers: dict[str, Checker] = {"mathmill": is_correct, "Math-Verify": math_verify}
    for check in checkers.values():
        check(r"x+\sqrt{2}", r"\sqrt{2}+x")  # start the judge, import sympy

    print("\n145 labelled pairs (answers/equivalence.jsonl)")
    for name, check in checkers.items():
        print(f"  {name:12} {labelled(args.data / 'answers' / 'equivalence.jsonl', check)}")

    files = {"gsm8k": "gsm8k/test.jsonl", "math": "math/test.jsonl", "cmath": "benchmarks/cmath-test.jsonl"}
    golds = {}
    print("\ngold against gold")
    for name, file in files.items():
        problems = load(BenchmarkRun(name=name, path=str(args.data / file)), 0, print).problems
        golds[name] = [p.gold for p in problems]
        print(f"  {name:12} {sum(is_correct(g, g) for g in golds[name])} of {len(problems)} equal")

    distinct = list(dict.fromkeys(golds["math"]))
    random.Random(0).shuffle(distinct)
    kept, broken = rewritten(distinct, args.per_rule)
    print(f"\nMATH's gold answers rewritten: {len(KEEP)} ways that keep the value, {len(BREAK)} that change it")
    for name, check in checkers.items():
        refused, accepted = sum(not check(*p) for p in kept), sum(check(*p) for p in broken)
        print(f"  {name:12} {refused} of {len(kept)} equal ones refused, {accepted} of {len(broken)} others accepted")

    sets = {
        "MATH gold against itself": [(g, g) for g in distinct[:1000]],
        "against the next one": list(itertools.pairwise(distinct)),
        "rewritten, equal": kept,
        "rewritten, not equal": broken,
    }
    print(f"\n{'checks a second':28}{'mathmill':>10}{'Math-Verify':>13}{'ratio':>8}{'fast path':>11}")
    for name, pairs in sets.items():
        ours, theirs = rate(pairs, _uncached), rate(pairs[:: max(1, len(pairs) // 300)], math_verify)
        fast = sum(quick_verdict(*p) is not None for p in pairs) / len(pairs)
        print(f"{name:28}{ours:10,.0f}{theirs:13,.0f}{ours / theirs:8.1f}{fast:11.0%}")


def _uncached(gold: str, answer: str) -> bool:
    """is_correct without its memory of earlier checks: the sets have been judged before."""
    from evals import equivalence

    equivalence._judged.cache_clear()
    return is_correct(gold, answer)


if __name__ == "__main__":
    main()
