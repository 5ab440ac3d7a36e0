"""A tiny Hugging Face checkpoint with a tokenizer, for tests that need a model folder."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

VOCABULARY = 200  # of the tests


def write_checkpoint(model: Any, folder: Path) -> None:
    """The weights and config of `model`, and a tokenizer with one word for each id."""
    words = {f"w{i}": i for i in range(VOCABULARY)}
    backend = Tokenizer(WordLevel(words, unk_token="w1"))
    backend.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="w0", bos_token="w0", unk_token="w1")
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
