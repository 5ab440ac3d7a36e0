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

from evals.report import gather, write_report
from evals.report.charts import Series, line_chart, nice_ceiling
from evals.report.content import Samples
from evals.report.curves import POINTS, from_metrics, from_tensorboard, thin
from evals.scoring import Intervals

CHECKPOINTS = ("pretrain", "sft", "grpo")
Lines = Callable[..., list[dict[str, Any]]]
TITLES = {"word_problems": "Word problems", "gsm8k": "GSM8K"}
CAP = 100


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with what the report reads: checkpoints, manifests, TensorBoard files."""
    run = tmp_path_factory.mktemp("runs") / "small"
    for stage in (*CHECKPOINTS, "corpus"):
        (run / stage / "hf").mkdir(parents=True)
        save_file(
            {"w": np.zeros((10, 20), np.float32), "b": np.zeros(7, np.float32)}, run / stage / "hf" / "a.safetensors"
        )
        metrics: dict[str, Any] = {"loss": 1.5, "curve": [[1, 3.0], [2, 2.0], [3, 1.5]]}
        if stage == "corpus":
            metrics = {"rounds": [{"round": 1, "pages": 30, "share": 0.5}, {"round": 2, "pages": 41, "share": 0.98}]}
        manifest = {
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
    return run


@pytest.fixture(scope="module")
def samples(lines: Lines) -> Samples:
    return {b: {c: lines(b, c) for c in CHECKPOINTS} for b in TITLES}


@pytest.fixture(scope="module")
def report(run_dir: Path, samples: Samples) -> dict[str, Any]:
    run = {"name": "small", "profile": "tiny", "code_version": "abc"}
    checkpoints = {c: run_dir / c / "hf" for c in CHECKPOINTS}
    return gather(run_dir, run, TITLES, checkpoints, samples, Intervals(draws=300))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, report: dict[str, Any], samples: Samples) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(folder, report, samples, CAP)
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
    shown = json.loads(page.data)
    assert len(shown) == CAP
    assert {(s["b"], s["c"]) for s in shown} == {(b, c) for b in TITLES for c in CHECKPOINTS}
    assert {s["r"] for s in shown} == {True, False}
    assert "</script>" in shown[0]["q"]  # the page survived it


def test_report_without_samples_of_several_answers_still_renders(run_dir: Path, tmp_path: Path, lines: Lines) -> None:
    greedy = {"gsm8k": {"sft": [line for line in lines("gsm8k", "sft", 5) if line["mode"] == "greedy"]}}
    run = {"name": "one", "profile": "tiny", "code_version": "abc"}
    one = gather(tmp_path, run, {"gsm8k": "GSM8K"}, {"sft": run_dir / "sft" / "hf"}, greedy, Intervals(draws=50))
    write_report(tmp_path, one, greedy, 10)
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


@pytest.mark.parametrize(("x", "top"), [(0.0, 1.0), (3.0, 4.0), (41.0, 60.0), (100.0, 100.0), (87.0, 100.0)])
def test_axis_ends_at_a_round_number(x: float, top: float) -> None:
    assert nice_ceiling(x) == top


def test_a_flat_line_is_drawn() -> None:
    assert "polyline" in line_chart([Series("flat", [[1, 0.0], [2, 0.0]], 0)], "flat", "step")
