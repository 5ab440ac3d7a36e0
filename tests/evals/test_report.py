"""The report: it says what the samples say, in three forms, and works without a network."""

import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from torch.utils.tensorboard import SummaryWriter

from evals.report import Rollouts, gather, read_rollouts, write_report
from evals.report.charts import Series, line_chart, ticks
from evals.report.content import Samples
from evals.report.curves import POINTS, from_metrics, from_tensorboard, thin
from evals.scoring import Intervals, length_group
from stage import UsageError

CHECKPOINTS = ("pretrain", "sft", "grpo")
Lines = Callable[..., list[dict[str, Any]]]
TITLES = {"word_problems": "Word problems", "gsm8k": "GSM8K"}
CAP = 100
STEPS, GROUP = 9, 4
CURVE = [{"predicted": 0.1, "label": 0.2, "steps": 30}, {"predicted": 0.9, "label": 0.8, "steps": 10}]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with what the report reads: checkpoints, manifests, TensorBoard files."""
    run = tmp_path_factory.mktemp("runs") / "small"
    for stage in (*CHECKPOINTS, "corpus", "reward"):
        (run / stage / "hf").mkdir(parents=True)
        save_file(
            {"w": np.zeros((10, 20), np.float32), "b": np.zeros(7, np.float32)}, run / stage / "hf" / "a.safetensors"
        )
        metrics: dict[str, Any] = {"loss": 1.5, "curve": [[1, 3.0], [2, 2.0], [3, 1.5]]}
        if stage == "corpus":
            metrics = {"rounds": [{"round": 1, "pages": 30, "share": 0.5}, {"round": 2, "pages": 41, "share": 0.98}]}
        if stage == "reward":
            metrics = {"held_out_steps": 40, "held_out_step_accuracy": 0.85, "held_out_reliability": CURVE}
        manifest = {
            "world_size": 2,
            "metrics": metrics,
            "counts": {"in": 10, "out": 8, "dropped": {"too short": 2}},
            "wall_seconds": 12.5,
            "peak_memory_bytes": 2**30,
        }
        (run / stage / "manifest.json").write_text(json.dumps(manifest))
    writer = SummaryWriter(str(run / "tensorboard" / "grpo"))
    for step in range(1, 6):
        writer.add_scalar("reward", step / 10, step)
    writer.close()
    lines = (rollout(step, i) for step in range(1, STEPS + 1) for i in range(GROUP))
    (run / "grpo" / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "profile.yaml").write_text("server: {device: cuda, weight_sync: nccl, tp_size: 2}")
    return run


def rollout(step: int, i: int) -> dict[str, Any]:
    """Output `i` of the one group of a step; the last step is under process supervision."""
    text = f"{step}+1={step + 1}\n#### {step + 1}" if i % 2 else "I do not"
    line: dict[str, Any] = {"step": step, "question": f"What is {step} + 1?", "gold": str(step + 1), "output": text}
    line |= {"reward": float(i % 2), "advantage": 1.0 if i % 2 else -1.0, "tokens": 10, "finish_reason": "stop"}
    if step == STEPS and i % 2:
        first, second = text.splitlines(keepends=True)
        line["steps"] = [{"text": first, "advantage": -0.5}, {"text": second, "advantage": 1.5}]
    return line


@pytest.fixture(scope="module")
def samples(lines: Lines) -> Samples:
    return {b: {c: lines(b, c) for c in CHECKPOINTS} for b in TITLES}


@pytest.fixture(scope="module")
def report(run_dir: Path, samples: Samples) -> dict[str, Any]:
    run = {"name": "small", "profile": "tiny", "code_version": "abc"}
    checkpoints = {c: run_dir / c / "hf" for c in CHECKPOINTS}
    return gather(run_dir, run, TITLES, checkpoints, samples, Intervals(draws=300), rollouts(run_dir).tokens)


def rollouts(run_dir: Path) -> Rollouts:
    return read_rollouts(run_dir / "grpo" / "samples.jsonl", CAP)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, run_dir: Path, report: dict[str, Any], samples: Samples) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(folder, report, samples, CAP, rollouts(run_dir))
    return folder


def test_report_counts_right_answers_as_the_samples_do(report: dict[str, Any], samples: dict[str, Any]) -> None:
    greedy = [line for line in samples["word_problems"]["sft"] if line["mode"] == "greedy"]
    expected = sum(line["completions"][0]["correct"] for line in greedy) / len(greedy)
    assert report["results"]["word_problems"]["sft"]["metrics"]["accuracy"]["value"] == expected
    assert report["checkpoints"]["sft"] == 207
    assert report["corpus_rounds"][1]["pages"] == 41


def test_curves_come_from_tensorboard_first_and_from_the_manifest_otherwise(report: dict[str, Any]) -> None:
    reward = report["curves"]["grpo"]["reward"]
    assert [step for step, _ in reward] == [1, 2, 3, 4, 5]
    assert [value for _, value in reward] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert report["curves"]["sft"]["loss"] == [[1, 3.0], [2, 2.0], [3, 1.5]]


def test_json_holds_the_report(written: Path, report: dict[str, Any]) -> None:
    assert json.loads((written / "report.json").read_text()) == json.loads(json.dumps(report))


def test_markdown_shows_our_rows_beside_the_papers(written: Path, report: dict[str, Any]) -> None:
    text = (written / "report.md").read_text()
    accuracy = report["results"]["word_problems"]["grpo"]["metrics"]["accuracy"]["value"]
    assert f"| this run, GRPO | {100 * accuracy:.1f} (" in text
    assert "| paper, RL 7B, chain of thought | – | 88.2 |" in text
    assert "Word problems: SFT → GRPO" in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    for table in tables:
        assert len({row.count("|") for row in table.splitlines()}) == 1, table


def test_small_model_near_zero_is_explained_and_a_large_one_is_not(report: dict[str, Any]) -> None:
    from evals.report.content import why_low

    assert report["why_low"].startswith("The model of this run has 0.0 million parameters")
    assert why_low(report["results"], 7_000_000_000) is None


class Tags(HTMLParser):
    """Collects tags, checks that they close, keeps the embedded data."""

    void = frozenset({"meta", "br", "input", "hr", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if (
            self.seen
            and self.seen[-1] == ("script", {"type": "application/json", "id": "data"})
            and self.open[-1] == "script"
        ):
            self.data += data


@pytest.fixture(scope="module")
def page(written: Path) -> Tags:
    tags = Tags()
    tags.feed((written / "report.html").read_text())
    return tags


def test_page_is_well_formed_and_loads_nothing(page: Tags) -> None:
    assert page.open == []
    for tag, attributes in page.seen:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attributes
        assert not str(attributes.get("href", "#")).startswith(("http", "//"))


def test_page_draws_every_chart_with_finite_numbers(page: Tags) -> None:
    drawn = [a for tag, a in page.seen if tag == "svg"]
    assert len(drawn) >= 1 + 2 + 1  # accuracy, Maj@K and Pass@K of two benchmarks, training curves
    for tag, attributes in page.seen:
        if tag in ("rect", "circle", "line", "text"):
            numbers = [float(v) for k, v in attributes.items() if k in ("x", "y", "cx", "cy", "width", "height") and v]
            assert all(math.isfinite(n) for n in numbers), (tag, attributes)


def test_viewer_holds_at_most_the_cap_and_all_kinds(page: Tags) -> None:
    viewer = json.loads(page.data)
    shown = viewer["answers"]
    assert len(shown) == CAP
    assert len(viewer["rollouts"]) == STEPS * GROUP
    assert {(s["b"], s["c"]) for s in shown} == {(b, c) for b in TITLES for c in CHECKPOINTS}
    assert {s["r"] for s in shown} == {True, False}
    assert "</script>" in viewer["questions"][shown[0]["q"]]  # the page survived it


def test_report_without_samples_of_several_answers_still_renders(run_dir: Path, tmp_path: Path, lines: Lines) -> None:
    greedy = {"gsm8k": {"sft": [line for line in lines("gsm8k", "sft", 5) if line["mode"] == "greedy"]}}
    run = {"name": "one", "profile": "tiny", "code_version": "abc"}
    one = gather(tmp_path, run, {"gsm8k": "GSM8K"}, {"sft": run_dir / "sft" / "hf"}, greedy, Intervals(draws=50))
    write_report(tmp_path, one, greedy, 10, Rollouts([]))
    assert one["comparisons"] == []
    assert "nothing to compare" in (tmp_path / "report.html").read_text()


def test_thinning_keeps_the_last_point_and_drops_what_is_not_finite() -> None:
    curve = [[float(i), math.nan if i == 3 else i / 2] for i in range(10 * POINTS)]
    short = thin(curve)
    assert len(short) <= POINTS
    assert short[-1] == curve[-1]
    assert all(math.isfinite(v) for _, v in short)


def test_step_written_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    for first, offset in ((1, 0.0), (3, 10.0)):  # killed after step 4, resumed at step 3
        writer = SummaryWriter(str(tmp_path))
        for step in range(first, first + 4):
            writer.add_scalar("loss", step + offset, step)
        writer.close()
    assert [step for step, _ in from_tensorboard(tmp_path)["loss"]] == [1, 2, 3, 4, 5, 6]


def test_only_lists_of_steps_and_values_are_curves() -> None:
    found = from_metrics({"curve": [[1, 2.0], [2, 1.0]], "rounds": [{"round": 1}], "words": [["a", "b"], ["c", "d"]]})
    assert found == {"loss": [[1, 2.0], [2, 1.0]]}


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 57.3, [0, 20, 40, 60]),
        (0.147, 0.532, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        (0.0, 100.0, [0, 20, 40, 60, 80, 100]),
        (0.0, 0.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_axes_are_marked_with_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_a_flat_line_is_drawn() -> None:
    assert "polyline" in line_chart([Series("flat", [[1, 0.0], [2, 0.0]], 0)], "flat", "step")


def test_rollouts_are_whole_groups_from_the_whole_training(run_dir: Path) -> None:
    path = run_dir / "grpo" / "samples.jsonl"
    some = read_rollouts(path, 3 * GROUP + 1)
    assert [len(group) for group in some.groups] == [GROUP] * 3
    assert [group[0]["step"] for group in some.groups] == [1, 4, 7]
    assert (some.total, some.tokens) == (STEPS * GROUP, STEPS * GROUP * 10)
    assert read_rollouts(run_dir / "nowhere.jsonl", CAP) == Rollouts([])


def test_a_damaged_rollout_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(rollout(1, 0)) + '\n{"step": 1}\n')
    with pytest.raises(UsageError, match=r"samples\.jsonl:2: not a rollout"):
        read_rollouts(path, CAP)


def test_lengths_are_quarters_of_the_questions() -> None:
    lines = [{"mode": "greedy", "question": "x" * n} for n in (3, 4, 10, 11, 20, 21, 30, 130)]
    group = length_group(lines)
    assert [group(line) for line in lines[::2]] == ["  3 to 9", " 10 to 19", " 20 to 29", " 30 to 130"]
    assert [group(line) for line in lines[1::2]] == [group(line) for line in lines[::2]]
    assert {length_group(lines[:1] * 9)(line) for line in lines[:1]} == {"3 to 3"}  # all alike: one group


def test_groups_have_intervals_around_their_accuracy(report: dict[str, Any]) -> None:
    for result in report["results"]["word_problems"].values():
        for by in ("level", "subject", "length"):
            groups = result[f"by_{by}"].values()
            assert sum(g["problems"] for g in groups) == 60
            assert all(g["interval"][0] - 1e-9 <= g["accuracy"] <= g["interval"][1] + 1e-9 for g in groups)


def test_costs_count_gpus_and_the_tokens_of_rollouts(report: dict[str, Any]) -> None:
    rows = {row["stage"]: row for row in report["stages"]}
    assert rows["corpus"]["gpu_hours"] == 0
    assert rows["sft"]["gpu_hours"] == pytest.approx(2 * 12.5 / 3600)
    assert rows["grpo"]["gpu_hours"] == pytest.approx(4 * 12.5 / 3600)  # two train, two sample beside them
    assert rows["grpo"]["tokens"] == STEPS * GROUP * 10


def test_reward_models_reliability_reaches_every_form(written: Path, report: dict[str, Any]) -> None:
    assert report["reward_model"]["held_out_reliability"] == CURVE
    assert "| 0.900 | 0.800 | 10 |" in (written / "report.md").read_text()
    assert "predicted 0.900, label 0.800, 10 steps" in (written / "report.html").read_text()
