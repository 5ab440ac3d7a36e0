"""Process groups: torch.distributed, megatron's parallel state, and the seeds, set up once per process."""

import os
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from pretrain import device
from pretrain.config import ParallelConfig
from stage import UsageError

T = TypeVar("T")
TIMEOUT = timedelta(minutes=30)  # of a collective of the training: longer means that a rank is lost
PATIENCE = timedelta(days=14)  # for rank 0, which labels and samples with the rollout server while the others wait

_control: Any = None  # gloo group of all ranks for messages between our own processes


def initialize(parallel: ParallelConfig, seed: int) -> None:
    """Join the processes that torchrun started (alone: a world of one) into the groups of `parallel`.

    Raises UsageError when the number of processes is not the profile's.
    """
    from megatron.core import parallel_state, tensor_parallel

    global _control
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    world = int(os.environ["WORLD_SIZE"])
    if world != parallel.world_size:
        raise UsageError(
            f"parallel: started with {world} processes, the profile says nnodes {parallel.nnodes} * "
            f"nproc_per_node {parallel.nproc_per_node} = {parallel.world_size}"
        )
    device.prepare()
    if device.on_gpu():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group(device.backend(), timeout=TIMEOUT)
        _control = dist.new_group(backend="gloo", timeout=PATIENCE)
    parallel_state.initialize_model_parallel(parallel.tensor_model_parallel_size, parallel.pipeline_model_parallel_size)
    seed += 100 * parallel_state.get_pipeline_model_parallel_rank()  # else all stages draw the same initial layers
    torch.manual_seed(seed)
    tensor_parallel.model_parallel_cuda_manual_seed(seed)


def finalize() -> None:
    """Leave the groups. Without it gloo's threads may abort the interpreter at exit."""
    from megatron.core import parallel_state

    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()


def from_rank_zero(value: T | None) -> T:
    """`value` of rank 0, on every rank, however long rank 0 takes to have it."""
    box = [value]
    dist.broadcast_object_list(box, src=0, group=_control)
    return box[0]  # type: ignore[return-value]


def any_rank(flag: bool) -> bool:
    """True on every rank when `flag` is true on at least one."""
    box = torch.tensor([int(flag)])
    dist.all_reduce(box, op=dist.ReduceOp.MAX, group=_control)
    return bool(box.item())
