r"""Our verdicts beside lm-evaluation-harness's own scoring code, on the same outputs, problem by problem.

    PYTHONPATH=. python benchmarks/lm_eval_agreement.py [--data DIR] [--run runs/tiny] [--list 10]

DIR holds tora/gsm8k-70b.jsonl, gsm8k/test.jsonl and math/test.jsonl; default: $MATHMILL_SHARED_DATA, else
../shared/data beside the repository. --run adds the word problems of a run, which answer in GSM8K's form.
GSM8K: the task gsm8k's filters strict-match and flexible-extract with its exact_match, read from the task's YAML.
MATH: the task minerva_math's exact_match (sympy) and math_verify, and hendrycks_math's string comparison. An output
there ends in Minerva's sentence, the only one that minerva_math reads. We judge by the benchmark's own rules.
"""

import argparse
import os
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.rewrites import BREAK, KEEP
from evals.benchmarks.loader import rules
from evals.config import BenchmarkRun
from evals.extraction import extract_answer
from stage import read_jsonl

INSTALL = "needs lm-eval: `pip install lm-eval==0.4.13 antlr4-python3-runtime==4.11.0` in a copy of the environment"
SENTENCES = ("a sentence", "a Chinese sentence", "dollars around it")  # rewritings of more than the answer
MINERVA = "Final Answer: The final answer is ${}$. I hope it is correct."
Verdicts = dict[str, bool]


class Output(NamedTuple):
    """A model's output and its problem's gold answer, whole (with its solution) and bare; `kind` groups differences."""

    text: str
    solution: str
    gold: str
    kind: str = ""


def gsm8k_scorer() -> Callable[[Output], Verdicts]:
    """The task's filters and metric, as its YAML sets them up."""
    import lm_eval  # type: ignore[import-not-found]
    import yaml
    from lm_eval.api.metrics import exact_match_hf_evaluate  # type: ignore[import-not-found]
    from lm_eval.filters.extraction import RegexFilter  # type: ignore[import-not-found]

    task = yaml.safe_load((Path(lm_eval.__file__).parent / "tasks/gsm8k/gsm8k.yaml").read_text())
    options = {k: v for k, v in task["metric_list"][0].items() if k in ("ignore_case", "regexes_to_ignore")}
    filters = {
        f["name"]: RegexFilter(**{k: v for k, v in f["filter"][0].items() if k != "function"})
        for f in task["filter_list"]
    }

    def score(output: Output) -> Verdicts:
        found = {name: next(iter(f.apply([[output.text]], [{}])))[0] for name, f in filters.items()}
        return {
            name: bool(exact_match_hf_evaluate([answer], [output.solution], **options)["exact_match"])
            for name, answer in found.items()
        }

    return score


def math_scorer() -> Callable[[Output], Verdicts]:
    """The tasks' process_results."""
    from lm_eval.tasks.hendrycks_math import utils as hendrycks  # type: ignore[import-not-found]
    from lm_eval.tasks.minerva_math import utils as minerva  # type: ignore[import-not-found]

    def score(output: Output) -> Verdicts:
        doc = {"solution": output.solution, "answer": minerva.normalize_final_answer(output.gold)}
        found = minerva.process_results(doc, [output.text])
        sentence = output.text.rpartition("\n")[2]  # hendrycks_math takes what is between the first and the last dollar
        strings = hendrycks.process_results(doc, [sentence])
        return {
            "minerva exact_match": bool(found["exact_match"]),
            "minerva math_verify": bool(found["math_verify"]),
            "hendrycks exact_match": bool(strings["exact_match"]),
        }

    return score


def gsm8k_sets(data: Path, run: Path | None) -> Iterator[tuple[str, list[Output]]]:
    """Outputs in GSM8K's form: published, the gold solutions themselves, a run's."""
    tora = read_jsonl(data / "tora/gsm8k-70b.jsonl")
    yield "ToRA-70B on GSM8K", [Output(r["trajectory"], r["gold"], r["gold"]) for r in tora]
    gold = read_jsonl(data / "gsm8k/test.jsonl")
    yield "GSM8K's solutions", [Output(r["answer"], r["answer"], r["answer"].rpartition("#### ")[2]) for r in gold]
    for file in sorted((run / "evals/samples").glob("*/word_problems.jsonl")) if run else ():
        lines = read_jsonl(file)
        texts = [(c["text"], line["gold"]) for line in lines for c in line["completions"]]
        yield f"word problems, {file.parent.name}", [Output(text, gold, gold) for text, gold in texts]


def math_sets(data: Path, per_rule: int) -> Iterator[tuple[str, list[Output]]]:
    """MATH's solutions, and its gold answers rewritten so that the value stays or changes."""
    solutions = [r["solution"] for r in read_jsonl(data / "math/test.jsonl")]
    golds = [(s, g) for s in solutions if (g := extract_answer(s, ("boxed",)))]
    yield "MATH's solutions", [Output(f"{s}\n{MINERVA.format(g)}", s, g) for s, g in golds]
    distinct = list(dict.fromkeys(g for _, g in golds))
    random.Random(0).shuffle(distinct)
    for name, ways in (("rewritten, equal", KEEP), ("rewritten, not equal", BREAK)):
        outputs = []
        for kind, rule in ways.items():
            answers = ((gold, rule(gold)) for gold in distinct if kind not in SENTENCES)
            pairs = [(gold, answer) for gold, answer in answers if answer is not None][:per_rule]
            outputs += [Output(MINERVA.format(answer), rf"\boxed{{{gold}}}", gold, kind) for gold, answer in pairs]
        yield name, outputs


def compare(
    benchmark: str, name: str, outputs: Iterable[Output], score: Callable[[Output], Verdicts], listed: int
) -> None:
    """Print a row for each of their metrics, then the differences by kind."""
    judge = rules(BenchmarkRun.of_key(benchmark)).judge
    rows: dict[str, list[tuple[Output, str | None, bool, bool]]] = defaultdict(list)
    for output in outputs:
        answer, ours = judge(output.gold, output.text)
        for metric, theirs in score(output).items():
            rows[metric].append((output, answer, ours, theirs))
    for metric, of in rows.items():
        accepted, by_them = sum(o for *_, o, _ in of), sum(t for *_, t in of)
        same = sum(o == t for *_, o, t in of)
        only = f"{accepted - _both(of):8}{by_them - _both(of):9}"
        print(f"{name:24}{metric:24}{len(of):6}{accepted:7}{by_them:9}{same:7}{only}")
    for metric, of in rows.items():
        kinds: dict[str, list[str]] = defaultdict(list)
        for output, answer, o, t in of:
            if o != t:
                end = " ".join(output.text[-90:].split())
                said = f"gold {output.gold!r}, answer found here {answer!r}, output ends {end!r}"
                kinds[f"{'only we' if o else 'only they'} accept; {output.kind}"].append(said)
        for kind, lines in sorted(kinds.items(), key=lambda item: -len(item[1])):
            print(f"    {metric}: {len(lines)} {kind}")
            print("".join(f"        {line}\n" for line in lines[:listed]), end="")
    print(flush=True)


def _both(rows: list[tuple[Output, str | None, bool, bool]]) -> int:
    return sum(o and t for *_, o, t in rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MATHMILL_SHARED_DATA", beside)))
    parser.add_argument("--run", type=Path, help="a run directory with its evals stage")
    parser.add_argument("--per-rule", type=int, default=40, help="pairs of each rewriting rule")
    parser.add_argument("--list", type=int, default=3, help="differences to show of each kind")
    args = parser.parse_args()
    try:
        gsm8k, math = gsm8k_scorer(), math_scorer()
    except (ImportError, AssertionError) as error:
        sys.exit(f"{INSTALL} ({error})")
    print(f"{'outputs':24}{'lm-eval':24}{'n':>6}{'ours':>7}{'lm-eval':>9}{'same':>7}{'only we':>8}{'only they':>10}")
    for name, outputs in gsm8k_sets(args.data, args.run):
        compare("gsm8k", name, outputs, gsm8k, args.list)
    for name, outputs in math_sets(args.data, args.per_rule):
        compare("math", name, outputs, math, args.list)


if __name__ == "__main__":
    main()
