r"""Texts become token shards that Megatron reads: `<prefix>.bin` and `<prefix>.idx` (its IndexedDataset).

Comes in: a Hugging Face tokenizer folder and texts. Goes out: one document for each text, closed by the end-of-document
token. The files are written here, with numpy, since megatron-core's own writer needs torch. The layout:

  .bin   the token ids of all documents, one after the other, as uint16 or int32
  .idx   "MMIDIDX\0\0", version 1 (u64), type code (u8: 8 = uint16, 4 = int32), number of sequences (u64),
         number of document boundaries (u64), then arrays: length of each sequence (i32),
         byte offset of each sequence in .bin (i64), first sequence of each document and the end (i64)
"""

import json
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType

import numpy as np
from tokenizers import Tokenizer as FastTokenizer  # type: ignore[import-untyped]

from stage import UsageError, atomic_write

MAGIC = b"MMIDIDX\x00\x00"
UINT16_VOCABULARY = 65500  # Megatron's own limit for two-byte tokens
BATCH = 512  # texts tokenised at once, in parallel


class Tokenizer:
    """The profile's tokenizer: a Hugging Face folder with tokenizer.json, whose eos token ends a document."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "tokenizer.json").is_file():
            raise UsageError(
                f"tokenizer: {self.folder} has no tokenizer.json; "
                "AutoTokenizer.from_pretrained(...).save_pretrained(...) writes one"
            )
        self._tokenizer = FastTokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.eod = self._eod()
        self.vocab_size = self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """Token ids of each text, without the end-of-document token."""
        stream = iter(texts)
        while batch := list(islice(stream, BATCH)):
            for encoding in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                yield encoding.ids

    def _eod(self) -> int:
        settings = json.loads((self.folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        token = settings.get("eos_token")
        name = token["content"] if isinstance(token, dict) else token
        number = self._tokenizer.token_to_id(name) if name else None
        if number is None:
            raise UsageError(f"tokenizer: {self.folder}/tokenizer_config.json names no eos_token of the vocabulary")
        return int(number)


class ShardWriter:
    """Writes one IndexedDataset. The .idx, without which nothing reads the .bin, appears whole, at the end."""

    def __init__(self, prefix: Path, vocab_size: int) -> None:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        self._dtype = np.dtype("<u2" if vocab_size < UINT16_VOCABULARY else "<i4")
        self._index = prefix.with_name(prefix.name + ".idx")
        self._index.unlink(missing_ok=True)  # one left by a killed attempt would describe another .bin
        self._bin = open(prefix.with_name(prefix.name + ".bin"), "wb")  # noqa: SIM115 - closed by __exit__
        self._lengths: list[int] = []

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._bin.close()
        if kind is None:
            self._write_index()

    @property
    def documents(self) -> int:
        return len(self._lengths)

    @property
    def tokens(self) -> int:
        return sum(self._lengths)

    def add(self, ids: list[int]) -> None:
        """Append one document."""
        self._bin.write(np.array(ids, dtype=self._dtype).tobytes())
        self._lengths.append(len(ids))

    def _write_index(self) -> None:
        lengths = np.array(self._lengths, dtype="<i4")
        offsets = np.zeros(len(lengths), dtype="<i8")
        np.cumsum(lengths[:-1].astype("<i8") * self._dtype.itemsize, out=offsets[1:])
        documents = np.arange(len(lengths) + 1, dtype="<i8")  # one sequence a document
        code = 8 if self._dtype.itemsize == 2 else 4
        header = MAGIC + struct.pack("<QBQQ", 1, code, len(lengths), len(documents))
        atomic_write(self._index, header + lengths.tobytes() + offsets.tobytes() + documents.tobytes())
