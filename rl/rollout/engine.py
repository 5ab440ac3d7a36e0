"""Samples from the policy while it is trained: owns an SGLang server, gives it new weights, survives its death.

In: a Hugging Face checkpoint to start from, then state dicts with rising versions. Out: completions that are known to
come from the weights last given. Used by one process (rank 0) of the reward and GRPO stages.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

import psutil
import torch

from evals.client import Completion, ServerDied, SGLangClient, WeightVersionMismatch
from evals.server import ServerStartFailed, SGLangServer
from evals.server_config import ServerConfig
from rl.rollout.shared_memory import SharedMemorySync

T = TypeVar("T")

FIRST_VERSION = "default"  # what SGLang calls the weights it was started with
TRIES = 3  # of one request; a server that dies every time has another problem


class WeightSync(Protocol):
    """A way for new weights into the server."""

    def send(self, client: SGLangClient, weights: Mapping[str, torch.Tensor], version: str) -> None:
        """Load `weights` into the server and check that it reports `version`."""

    def resend(self, client: SGLangClient) -> None:
        """Load what was last sent into a server that has just been started."""

    def close(self) -> None:
        """Free what the transfer holds."""


class RolloutEngine:
    """A rollout server for the checkpoint in `model_path`; a context manager.

    `restarts` counts how often the server died and was started again.
    """

    def __init__(self, model_path: str | Path, config: ServerConfig, log_path: Path, seed: int = 0) -> None:
        self.restarts = 0
        self._server = SGLangServer(model_path, config, log_path, seed=seed)
        self._sync = _weight_sync(Path(model_path), config)
        self._version = FIRST_VERSION

    def __enter__(self) -> "RolloutEngine":
        self._server.start()
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._server.stop()
        self._sync.close()

    def client(self) -> SGLangClient:
        """A client of the server as it runs now."""
        return self._server.client()

    def processes(self) -> list[psutil.Process]:
        """The server's processes, the first one first."""
        return self._server.processes()

    def sample(
        self,
        prompts_ids: Sequence[list[int]],
        n: int,
        sampling: dict[str, Any],
        progress: Callable[[int], object] | None = None,
    ) -> list[list[Completion]]:
        """`n` completions of every prompt, each with the log-probabilities it was sampled with.

        When the server dies, it is started again with the last weights and the whole request is repeated.
        """

        def ask(client: SGLangClient) -> list[list[Completion]]:
            groups = client.generate(prompts_ids, sampling, n, return_logprob=True, progress=progress)
            for completion in (c for group in groups for c in group):
                if completion.finish_reason == "abort":  # somebody is stopping the server
                    raise ServerDied("the server aborted a request")
                if completion.weight_version != self._version:
                    raise WeightVersionMismatch(
                        f"a sample carries weight version {completion.weight_version!r}, expected {self._version!r}"
                    )
            return groups

        return self._surviving(ask)

    def sync_weights(self, hf_state_dict: Mapping[str, torch.Tensor], version: int) -> None:
        """Give the server new weights (Hugging Face names); every later sample carries `version`."""
        self._surviving(lambda client: self._sync.send(client, hf_state_dict, str(version)))
        self._version = str(version)

    def _surviving(self, action: Callable[[SGLangClient], T]) -> T:
        """`action`'s result; a server that dies under it is started again, and `action` repeated."""
        for attempt in range(1, TRIES + 1):
            try:
                if attempt > 1:
                    self._restart()
                return action(self._server.client())
            except (ServerDied, ServerStartFailed) as error:
                if attempt == TRIES:
                    raise
                print(f"the SGLang server died ({error}); starting it again", file=sys.stderr, flush=True)
        raise AssertionError("unreachable")

    def _restart(self) -> None:
        self.restarts += 1
        self._server.restart()
        if self._version != FIRST_VERSION:
            self._sync.resend(self._server.client())


def _weight_sync(model_path: Path, config: ServerConfig) -> WeightSync:
    if config.weight_sync == "shared_memory":
        return SharedMemorySync(model_path)
    from rl.rollout.nccl_sync import BroadcastSync

    return BroadcastSync(config.tp_size, "nccl")
