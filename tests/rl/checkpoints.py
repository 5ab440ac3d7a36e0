"""A tiny Hugging Face checkpoint with a tokenizer, for tests that need a model folder."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

VOCABULARY = 200  # of the tests


def write_checkpoint(model: Any, folder: Path) -> None:
    """The weights and config of `model`, and a tokenizer with one word for each id."""
    words = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="w1")), eos_token="w0", bos_token="w0", unk_token="w1"
    )
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
