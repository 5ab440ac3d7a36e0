"""Files that are either whole or absent, and locks that end with their holder."""

import fcntl
import hashlib
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stage.errors import UsageError


def atomic_write(path: str | Path, data: str | bytes) -> None:
    """Write `data` to `path` so that a reader, or a crash at any instant, sees the old file or the new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    raw = data.encode() if isinstance(data, str) else data
    with open(temporary, "wb") as f:
        f.write(raw)
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)


def sha256_file(path: str | Path) -> str:
    """Hex sha256 of a file's bytes."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path`; the kernel lets go of it when this process ends, however it ends.

    A UsageError says who holds it already, or that it cannot be written; `what` is the thing that it keeps.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+")  # noqa: SIM115  (closed below; opening it has an error of its own)
    except OSError as error:
        raise UsageError(f"{what}: cannot be written ({error.filename}: {error.strerror})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(f"{what} is in use by {file.read().strip()}; wait for it or stop it") from None
        except OSError as error:  # a Lustre mounted without flock, say
            print(
                f"note: {path} cannot be locked ({error.strerror}): see to it that nobody else works there", flush=True
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        file.flush()
        yield
        file.truncate(0)
