"""The device megatron-core trains on, and what it takes to run it, unmodified, where there is no GPU.

On a GPU host nothing here changes anything. On a CPU host (`prepare()`, once per process, before parallel state is
made) megatron's questions to torch.cuda are answered by the CPU, and three faults of its distributed optimizer
without Transformer Engine or apex are repaired (docs/decisions). Its mathematics is untouched.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def on_gpu() -> bool:
    """True where CUDA devices are visible."""
    return torch.cuda.is_available()


def device() -> torch.device:
    """This process's device."""
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu() else torch.device("cpu")


def backend() -> str:
    """The torch.distributed backend for `device()`."""
    return "nccl" if on_gpu() else "gloo"


def prepare() -> None:
    """Make this process fit for megatron-core. Does nothing on a GPU host, nor when called twice."""
    if on_gpu() or getattr(prepare, "done", False):
        return
    prepare.done = True  # type: ignore[attr-defined]
    _answer_for_cuda()
    _repair_distributed_optimizer()
    mode: Any = _CudaMeansCpu()
    mode.__enter__()


class _CudaMeansCpu(TorchFunctionMode):
    """Sends what megatron would put on CUDA to the CPU.

    `tensor.type()` answers 'torch.cuda.FloatTensor' and the like: megatron's gradient clipping and its optimizer
    sort parameters by those names.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0]
        if kwargs and _is_cuda(kwargs.get("device")):
            kwargs = {**kwargs, "device": "cpu"}
        if name == "to" and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], "cpu", *args[2:])
        if name == "type" and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.", 1)
        return func(*args, **(kwargs or {}))


def _is_cuda(where: object) -> bool:
    if isinstance(where, torch.device):
        return where.type == "cuda"
    return (isinstance(where, int) and not isinstance(where, bool)) or (isinstance(where, str) and "cuda" in where)


def _answer_for_cuda() -> None:
    import megatron.core.tensor_parallel.random as megatron_random

    cuda: Any = torch.cuda
    cuda.current_device = lambda: "cpu"
    cuda.synchronize = lambda *a, **k: None
    cuda.get_rng_state = lambda *a, **k: torch.get_rng_state()
    cuda.set_rng_state = lambda state, *a, **k: torch.set_rng_state(state)
    cuda.manual_seed = torch.manual_seed
    patched: Any = megatron_random
    patched._get_cuda_rng_state = lambda *a, **k: torch.get_rng_state()
    patched._set_cuda_rng_state = lambda state, *a, **k: torch.set_rng_state(state)


def _repair_distributed_optimizer() -> None:
    """Three faults of megatron-core 0.16.1's DistributedOptimizer with torch's Adam, each with a test:

    1. `sharded_state_dict(is_loading=True)` wants optimizer state before any step has made it;
    2. the reshardable loaders forget `step` among the states they copy (KeyError);
    3. `load_state_dict` gives all parameters one shared `step` tensor, which Adam then raises once per parameter:
       a resumed run silently leaves the course of the uninterrupted one.
    """
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    optimizer: Any = DistributedOptimizer
    copy_states = optimizer._set_main_param_and_optimizer_states
    load = optimizer.load_state_dict
    sharded = optimizer.sharded_state_dict

    def copy_states_and_step(self: Any, model_param: Any, tensors: dict[str, Any]) -> Any:
        group, order = self.model_param_group_index_map[model_param]
        state = self.optimizer.state[self.optimizer.param_groups[group]["params"][order]]
        return copy_states(self, model_param, {"step": state["step"], **tensors})

    def load_and_unshare_step(self: Any, state_dict: Any) -> None:
        load(self, state_dict)
        for state in self.optimizer.state.values():
            state["step"] = state["step"].clone()

    def sharded_with_state(self: Any, model_state: Any, is_loading: bool = False, **kwargs: Any) -> Any:
        if is_loading and not self.optimizer.state:
            self._init_optimizer_states_with_dummy_values()
        return sharded(self, model_state, is_loading, **kwargs)

    optimizer._set_main_param_and_optimizer_states = copy_states_and_step
    optimizer.load_state_dict = load_and_unshare_step
    optimizer.sharded_state_dict = sharded_with_state
