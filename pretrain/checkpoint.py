"""Checkpoints to resume from: megatron's dist_checkpointing, made visible only when whole.

    DIR/step_00000040/   model, optimizer, scheduler; loads under any tp, pp, dp
    DIR/latest           "step_00000040", replaced atomically after that folder was written

A run killed while saving, or out of disk, leaves a folder that `latest` does not name; the next start removes it. The
disk needs room for two. All randomness of a stage is derived from (seed, step), so the step is all there is to know of
data order.
"""

from pathlib import Path
from typing import Any

import torch.distributed as dist
from megatron.core import dist_checkpointing
from torch.distributed.checkpoint.api import CheckpointException

from pretrain.engine import Engine
from stage import UsageError, atomic_write
from stage.context import remove

OPTIMIZER_SHARDING = {"distrib_optim_sharding_type": "fully_reshardable"}


def save(engine: Engine, directory: Path, step: int) -> None:
    """Save everything needed to go on after `step` updates, then forget older checkpoints. Every rank calls it.

    Raises UsageError when it cannot be written; the checkpoint before it stays.
    """
    target = directory / f"step_{step:08d}"
    try:
        _save(_state(engine, is_loading=False) | {"step": step}, target)
        if dist.get_rank() == 0:
            atomic_write(directory / "latest", target.name)
            _forget_all_but(directory, target.name)
    except (OSError, CheckpointException) as error:
        raise UsageError(f"checkpoint {target} cannot be written ({_cause(error)}); make room, start again") from error
    dist.barrier()


def load(engine: Engine, directory: Path) -> int:
    """Restore `engine` from the latest checkpoint; the number of updates it holds, 0 when there is none."""
    latest = directory / "latest"
    name = latest.read_text() if latest.is_file() else None
    if dist.get_rank() == 0:
        _forget_all_but(directory, name)
    if name is None:
        return 0
    path = directory / name
    try:
        state = dist_checkpointing.load(_state(engine, is_loading=True) | {"step": 0}, str(path))
    except (Exception, CheckpointException) as error:
        raise UsageError(
            f"checkpoint {path} cannot be read ({_cause(error)}); delete {directory} to start over"
        ) from error
    engine.bare.load_state_dict(state["model"])
    engine.optimizer.load_state_dict(state["optimizer"])
    engine.scheduler.load_state_dict(state["scheduler"])
    return int(state["step"])


def save_model(engine: Engine, target: Path) -> None:
    """The weights alone, in megatron's format: a finished stage's `megatron/`. Every rank calls it."""
    _save({"model": engine.bare.sharded_state_dict()}, target)


def _save(state: dict[str, Any], target: Path) -> None:
    if dist.get_rank() == 0:
        remove(target)
        target.mkdir(parents=True)
    dist.barrier()
    dist_checkpointing.save(state, str(target))
    dist.barrier()


def _cause(error: BaseException) -> str:
    """The last line: torch's CheckpointException, which is no Exception, quotes the tracebacks of all ranks."""
    return str(error).strip().rpartition("\n")[2]


def _forget_all_but(directory: Path, name: str | None) -> None:
    for folder in directory.glob("step_*"):
        if folder.name != name:
            remove(folder)


def _state(engine: Engine, is_loading: bool) -> dict[str, Any]:
    model = engine.bare.sharded_state_dict()
    return {
        "model": model,
        "optimizer": engine.optimizer.sharded_state_dict(model, is_loading=is_loading, metadata=OPTIMIZER_SHARDING),
        "scheduler": engine.scheduler.state_dict(),
    }
