"""Training curves and stage manifests of a run directory, as far as they are there.

Out: {stage: {name of the curve: [[step, value], ...]}} with at most POINTS points a curve, and the manifests' facts.
"""

import json
import math
from pathlib import Path
from typing import Any

Curve = list[list[float]]
POINTS = 300
STAGES = ("corpus", "pretrain", "sft", "reward", "grpo", "evals")


def manifests(run_dir: Path) -> dict[str, dict[str, Any]]:
    """The manifest of each published stage, in the order of the recipe."""
    files = {stage: run_dir / stage / "manifest.json" for stage in STAGES}
    return {stage: json.loads(f.read_text(encoding="utf-8")) for stage, f in files.items() if f.is_file()}


def training_curves(run_dir: Path, stages: dict[str, dict[str, Any]]) -> dict[str, dict[str, Curve]]:
    """TensorBoard's curves of each stage; the manifest's for a stage without TensorBoard files."""
    found = {}
    for stage in STAGES:
        folder = run_dir / "tensorboard" / stage
        curves = from_tensorboard(folder) if folder.is_dir() else {}
        curves = curves or from_metrics(stages.get(stage, {}).get("metrics", {}))
        if curves:
            found[stage] = curves
    return found


def from_tensorboard(folder: Path) -> dict[str, Curve]:
    """Every scalar in the event files below `folder`; of a step written twice (after a resume) the later value."""
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, TENSORS, EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), size_guidance={SCALARS: 0, TENSORS: 0})
    events.Reload()
    tags = events.Tags()
    points = {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in tags["scalars"]}
    for tag in tags["tensors"]:
        values = {e.step: make_ndarray(e.tensor_proto) for e in events.Tensors(tag)}
        if all(v.ndim == 0 and v.dtype.kind in "fiu" for v in values.values()):
            points[tag] = {step: float(v) for step, v in values.items()}
    return {tag: thin([[step, v] for step, v in sorted(p.items())]) for tag, p in sorted(points.items())}


def from_metrics(metrics: dict[str, Any]) -> dict[str, Curve]:
    """The metrics of a manifest that are lists of [step, value]; the one called `curve` is the loss."""
    named = {("loss" if k == "curve" else k): v for k, v in metrics.items() if _is_curve(v)}
    return {k: thin(v) for k, v in named.items()}


def thin(curve: Curve) -> Curve:
    """At most POINTS finite points, evenly spread, the last one kept."""
    curve = [[p[0], p[1]] for p in curve if math.isfinite(p[1])]
    stride = max(1, math.ceil(len(curve) / POINTS))
    return curve[::-1][::stride][::-1]


def _is_curve(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(p, list) and len(p) == 2 and all(isinstance(x, int | float) for x in p) for p in value)
    )
