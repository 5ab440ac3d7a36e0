"""What each stage cost, as far as the run directory tells: time, processes, GPU hours, tokens, memory, records.

A manifest's wall time is that of the stage's last start: what a killed start did before it is not in it.
"""

from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]
ON_CPU = ("corpus",)  # whatever the other stages run on


def stage_costs(run_dir: Path, stages: dict[str, Manifest], rollout_tokens: int) -> list[dict[str, Any]]:
    """One row a published stage; `gpus` and `gpu_hours` are None where the profile doesn't say what it ran on."""
    file = run_dir / "profile.yaml"
    server = yaml.safe_load(file.read_text(encoding="utf-8")).get("server", {}) if file.is_file() else {}
    return [_row(name, manifest, server, rollout_tokens) for name, manifest in stages.items()]


def _row(name: str, manifest: Manifest, server: dict[str, Any], rollout_tokens: int) -> dict[str, Any]:
    metrics, counts = manifest["metrics"], manifest["counts"]
    processes = int(manifest.get("world_size", 1))
    gpus = gpus_of(name, processes, server)
    tokens = metrics.get("tokens", metrics.get("corpus_tokens", rollout_tokens if name == "grpo" else None))
    return {
        "stage": name,
        "wall_seconds": manifest["wall_seconds"],
        "processes": processes,
        "gpus": gpus,
        "gpu_hours": None if gpus is None else gpus * manifest["wall_seconds"] / 3600,
        "tokens": tokens,
        "peak_memory_bytes": manifest.get("peak_memory_bytes"),
        "in": counts["in"],
        "out": counts["out"],
        "dropped": sum(counts["dropped"].values()),
        "metrics": {k: v for k, v in metrics.items() if isinstance(v, int | float | str)},
    }


def gpus_of(stage: str, processes: int, server: dict[str, Any]) -> int | None:
    """GPUs a stage held: one a training process, and those of a server that has its own; 0 on a CPU.

    None without the profile's `server` section, which says what the run's machine is.
    """
    if not server:
        return None
    if server["device"] == "cpu" or stage in ON_CPU:
        return 0
    servers = server.get("tp_size", 1) * server.get("dp_size", 1)
    if stage == "evals":
        return int(servers)
    apart = stage == "grpo" and server.get("weight_sync") == "nccl"
    return processes + (servers if apart else 0)
