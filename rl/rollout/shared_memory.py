"""New weights into a server on the same host through files in memory.

One folder in /dev/shm a version, a complete Hugging Face checkpoint; the server loads it in place. The folder stays
until the next version is loaded, so that a server that dies can be given it again.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil
import torch
from safetensors.torch import save_file

from evals.client import SGLangClient

MEMORY = Path("/dev/shm")
PREFIX = "mathmill-weights"


class SharedMemorySync:
    """Writes weights beside the small files (config, tokenizer) of the checkpoint in `model_path`."""

    def __init__(self, model_path: Path) -> None:
        self._model_path = model_path
        self._folder: Path | None = None
        self._version = ""
        remove_orphans(MEMORY)

    def send(self, client: SGLangClient, weights: Mapping[str, torch.Tensor], version: str) -> None:
        """Write, load, check the version, remove the folder before."""
        size = sum(w.numel() * w.element_size() for w in weights.values())
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-{version}-", dir=place_for(size)))
        try:
            tensors = {name: w.detach().cpu().contiguous() for name, w in weights.items()}
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            for file in self._model_path.iterdir():
                if file.is_file() and ".safetensors" not in file.name and file.suffix not in (".bin", ".pt"):
                    shutil.copy(file, folder)
            client.update_weights(str(folder), version)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.close()
        self._folder, self._version = folder, version

    def resend(self, client: SGLangClient) -> None:
        """Load the last folder again."""
        client.update_weights(str(self._folder), self._version)

    def close(self) -> None:
        """Remove the last folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def place_for(size: int) -> Path:
    """A folder with room for `size` bytes: memory if it has, else the disk's temporary folder.

    Containers often give /dev/shm 64 MB only.
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > size * 1.1:
        return MEMORY
    return Path(tempfile.gettempdir())


def remove_orphans(folder: Path) -> None:
    """Remove the weights that processes killed in the middle of a run have left in `folder`."""
    for left in folder.glob(f"{PREFIX}-*"):
        pid = left.name.removeprefix(f"{PREFIX}-").split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
