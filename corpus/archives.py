"""The files that `corpus.inputs` names, local or remote, and how they are opened.

Comes in: paths, folders, globs and URLs. Goes out: the names of files, and readable binary streams. What cannot be
found or opened, or stops being readable half-way (a disk, a network), is a UsageError of one line: no data goes missing
unseen.
"""

import glob
import io
from pathlib import Path
from typing import IO, cast

from stage import UsageError

# What counts as an archive inside a folder; a file that is named, or that a glob matches, may be called anything.
SUFFIXES = tuple(f"{kind}{packed}" for kind in (".warc", ".wet", ".arc") for packed in ("", ".gz"))


def input_files(patterns: list[str]) -> list[str]:
    """The files behind the patterns, sorted, each once. A pattern that matches nothing is an error."""
    files: set[str] = set()
    for pattern in patterns:
        found = _remote_files(pattern) if "://" in pattern else _local_files(pattern)
        if not found:
            raise UsageError(f"corpus.inputs: no file matches '{pattern}' (in a folder: {', '.join(SUFFIXES)})")
        files.update(found)
    return sorted(files)


def open_archive(file: str) -> IO[bytes]:
    """A stream of the file's bytes as they are, not decompressed; its read errors name the file."""
    try:
        if "://" not in file:
            raw: IO[bytes] = open(file, "rb")  # noqa: SIM115 - closed by the caller
        else:
            import fsspec  # type: ignore[import-untyped]

            raw = fsspec.open(file, "rb").open()
    except Exception as error:  # every file system of fsspec has errors of its own
        raise _unreadable(file, error) from None
    return cast(IO[bytes], _Named(raw, file))


class _Named(io.RawIOBase):
    """A stream whose failures are UsageErrors; an archive that is merely broken raises none here."""

    def __init__(self, raw: IO[bytes], file: str) -> None:
        self._raw, self._file = raw, file
        self.failure: UsageError | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            return self._raw.read(size)
        except Exception as error:
            # Kept as well as raised: the parser that reads this stream may turn it into an error of its own.
            self.failure = _unreadable(self._file, error)
            raise self.failure from None

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def close(self) -> None:
        self._raw.close()
        super().close()


def _local_files(pattern: str) -> list[str]:
    place = Path(pattern)
    if place.is_dir():
        return [str(p) for p in place.rglob("*") if p.name.endswith(SUFFIXES) and p.is_file()]
    return [pattern] if place.is_file() else [p for p in glob.glob(pattern, recursive=True) if Path(p).is_file()]


def _remote_files(pattern: str) -> list[str]:
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(pattern)
        if glob.has_magic(path) and not filesystem.exists(path):
            found = filesystem.glob(path)
        elif filesystem.isfile(path):
            found = [path]
        else:
            found = [p for p in filesystem.find(path) if p.endswith(SUFFIXES)]
    except Exception as error:
        raise _unreadable(pattern, error) from None
    return [filesystem.unstrip_protocol(p) for p in found]


def _unreadable(file: str, error: Exception) -> UsageError:
    reason = str(error).strip().splitlines() or [""]
    return UsageError(f"corpus.inputs: cannot read {file}: {type(error).__name__}: {reason[0]}")
