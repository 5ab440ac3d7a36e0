"""Stage `pretrain`: continued pretraining of the base model on the mined mixture, with megatron-core.

Reads corpus/mixture.json and its shards; publishes hf/, megatron/, losses.jsonl and, in the manifest, the loss curve.
"""

import sys

from stage import Stage, stage_main


def body(stage: Stage) -> None:
    from pretrain import loop, parallel
    from pretrain.config import ModelConfig, PretrainConfig
    from pretrain.data import Mixture
    from pretrain.engine import Engine, lm_loss

    config, model = stage.section("pretrain", PretrainConfig), stage.section("model", ModelConfig)
    seed = int(stage.profile["seed"])
    parallel.initialize(config.parallel, seed)
    samples = config.train_iters * config.global_batch_size
    cache = stage.work / "resume" / "dataset_cache"
    mixture = Mixture(stage.input("corpus"), model.vocab_size, config.seq_length, samples, seed, cache)
    engine = Engine(model, config, weights=model.init_from, train_iters=config.train_iters)

    loop.train(stage, engine, mixture.batch, lm_loss, config.train_iters)
    stage.counts |= {"in": samples, "out": samples}
    loop.publish_model(stage, engine, mixture.eod)
    parallel.finalize()


def main(argv: list[str] | None = None) -> int:
    return stage_main("pretrain", body, argv, __doc__)


if __name__ == "__main__":
    sys.exit(main())
