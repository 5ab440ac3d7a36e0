"""Trains the demo's tokenizer: byte-level BPE, each digit and Chinese character a token. Run from the repository root.

python examples/make_tokenizer.py examples/tokenizer examples/sources/*.jsonl

It learns from the training split of the demo's word problems and from the JSONL files (key `text`) it is given.
Single digits matter more than anything else at this size: a model that sees "137" as one token cannot add.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evals.benchmarks.word_problems import generate

VOCAB_SIZE = 1024
SPECIAL = ["<|endoftext|>", "<|pad|>", "<|step|>", "<|good|>", "<|bad|>"]


def texts(files: list[Path]) -> Iterator[str]:
    for p in generate("train", 4000, seed=0):
        yield f"User: {p.question}\n\nAssistant: {p.solution}"
    for file in files:
        for line in file.read_text().splitlines():
            yield json.loads(line)["text"][:2000]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    args = parser.parse_args()

    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(r"\d|\p{Han}| ?\p{L}+| ?[^\s\d\p{L}]+|\s+(?!\S)|\s+"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(args.files), trainer)
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}User: {{ m.content }}\n\nAssistant: "
        "{% else %}{{ m.content }}<|endoftext|>{% endif %}{% endfor %}"
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[0],
        pad_token=SPECIAL[1],
        clean_up_tokenization_spaces=False,
        chat_template=template,
    )
    fast.save_pretrained(args.output)


if __name__ == "__main__":
    main()
