"""New weights into a server with GPUs of its own, broadcast over NCCL by rank 0 of the trainer.

One process group holds the trainer's rank 0 and the server's tensor-parallel ranks. For each bucket of parameters the
server is told names, types and shapes over HTTP, and takes part in the broadcasts while that request runs.
NCCL wants every rank on another GPU: a server that shares the trainer's GPUs takes shared_memory instead. SGLang
takes broadcasts with dp_size 1 only.
"""

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

import torch
import torch.distributed as dist

from evals.client import SGLangClient
from evals.server import free_ports

BUCKET_BYTES = 512 * 2**20


class BroadcastSync:
    """Broadcasts to the `tp_size` ranks of one server. gloo does for CPU servers what NCCL does for GPUs."""

    def __init__(self, tp_size: int, backend: Literal["nccl", "gloo"]) -> None:
        self._tp_size, self._backend = tp_size, backend
        self._group: Any = None
        self._number = 0
        self._weights: Mapping[str, torch.Tensor] = {}
        self._version = ""
        self._http = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weights")

    def send(self, client: SGLangClient, weights: Mapping[str, torch.Tensor], version: str) -> None:
        """Broadcast all weights; the last bucket carries the version and empties the prefix cache."""
        try:
            if self._group is None:
                self._join(client)
            buckets = list(_buckets(weights))
            for i, names in enumerate(buckets):
                self._broadcast(client, {name: weights[name] for name in names}, version, i == len(buckets) - 1)
        except BaseException:
            self._leave()  # the peers may be gone: the next call builds a new group
            raise
        client.check_weight_version(version)
        self._weights, self._version = weights, version

    def resend(self, client: SGLangClient) -> None:
        """Broadcast the last weights to a new server: the tensors given to `send`, as they are now."""
        self._leave()
        self.send(client, self._weights, self._version)

    def close(self) -> None:
        """Leave the group; the server has stopped."""
        self._leave()
        self._http.shutdown(wait=False, cancel_futures=True)

    @property
    def _name(self) -> str:
        return f"weights-{os.getpid()}-{self._number}"

    def _join(self, client: SGLangClient) -> None:
        """Meet the server's ranks in a new process group: we are rank 0, they follow."""
        from sglang.srt.utils import init_custom_process_group

        import evals.sglang_nccl  # noqa: F401  (makes the next import's function work with this torch)

        self._number += 1
        port, world_size = free_ports()[0], self._tp_size + 1
        body = {
            "master_address": "127.0.0.1",
            "master_port": port,
            "rank_offset": 1,
            "world_size": world_size,
            "group_name": self._name,
            "backend": self._backend,
        }
        request = self._http.submit(client.post, "init_weights_update_group", body)
        self._group = init_custom_process_group(
            backend=self._backend,
            init_method=f"tcp://127.0.0.1:{port}",
            world_size=world_size,
            rank=0,
            group_name=self._name,
        )
        request.result()

    def _broadcast(self, client: SGLangClient, weights: Mapping[str, torch.Tensor], version: str, last: bool) -> None:
        body = {
            "names": list(weights),
            "dtypes": [str(w.dtype).removeprefix("torch.") for w in weights.values()],
            "shapes": [list(w.shape) for w in weights.values()],
            "group_name": self._name,
            "flush_cache": last,
            "weight_version": version if last else None,
        }
        device = "cuda" if self._backend == "nccl" else "cpu"
        request = self._http.submit(client.post, "update_weights_from_distributed", body)
        tensors = [w.detach().to(device).contiguous() for w in weights.values()]
        works = [dist.broadcast(t, src=0, group=self._group, async_op=True) for t in tensors]
        for work in works:
            _wait(work, request)
        request.result()

    def _leave(self) -> None:
        if self._group is not None:
            dist.destroy_process_group(self._group)
            self._group = None


def _wait(work: Any, request: "Future[Any]") -> None:
    """Until the broadcast is through; raises the request's error if the server gives up before."""
    while not work.is_completed():
        if request.done():
            request.result()
        time.sleep(0.001)
    work.wait()


def _buckets(weights: Mapping[str, torch.Tensor]) -> Iterator[list[str]]:
    """The names in groups of about BUCKET_BYTES: what the server holds twice for a moment."""
    names: list[str] = []
    size = 0
    for name, weight in weights.items():
        names.append(name)
        size += weight.numel() * weight.element_size()
        if size >= BUCKET_BYTES:
            yield names
            names, size = [], 0
    if names:
        yield names
