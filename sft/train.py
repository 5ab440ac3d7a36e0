"""Stage `sft`: instruction tuning on packed chain-of-thought examples, with the loss on the answers only.

Reads the pretrained checkpoint (pretrain/hf) and the profile's `sft.sources`; publishes hf/, megatron/ and, in the
manifest, the loss curve.
"""

import sys

from stage import Stage, stage_main


def body(stage: Stage) -> None:
    from transformers import AutoTokenizer

    from pretrain import loop, parallel
    from pretrain.config import ModelConfig
    from pretrain.engine import Engine, lm_loss
    from sft.config import SftConfig
    from sft.data import read_examples
    from sft.packing import PackedStream

    config, model = stage.section("sft", SftConfig), stage.section("model", ModelConfig)
    seed = int(stage.profile["seed"])
    parallel.initialize(config.parallel, seed)
    tokenizer = AutoTokenizer.from_pretrained(stage.profile["tokenizer"])
    engine = Engine(model, config, weights=stage.input("pretrain") / "hf", train_iters=config.train_iters)
    examples = read_examples(stage, config.sources, tokenizer, config.seq_length, seed)
    stream = PackedStream(examples, config.seq_length, tokenizer.eos_token_id, seed)

    loop.train(stage, engine, stream.batch, lm_loss, config.train_iters)
    loop.publish_model(stage, engine, tokenizer.eos_token_id)
    parallel.finalize()


def main(argv: list[str] | None = None) -> int:
    return stage_main("sft", body, argv, __doc__)


if __name__ == "__main__":
    sys.exit(main())
