"""The training loop of the supervised stages: fetch, step, log, checkpoint; and the publication of a trained model."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from pretrain import checkpoint, hf, parallel
from pretrain.config import TrainingConfig
from pretrain.engine import Batch, Engine, LossFunc
from stage import Preempted, Stage, cut_back_jsonl, read_jsonl

CURVE_POINTS = 200  # points of a loss curve kept in the manifest


def micro_batches(engine: Engine, fetch: Callable[[Sequence[int]], Batch], first: int) -> list[Batch]:
    """This data-parallel rank's share of the global batch that starts at sample number `first`.

    Micro-batch m of rank r holds consecutive samples; ranks take turns, as in Megatron-LM's sampler.
    """
    c: TrainingConfig = engine.train_config
    size, rank, ranks = c.micro_batch_size, engine.data_parallel_rank, engine.data_parallel_size
    starts = range(first + rank * size, first + c.global_batch_size, size * ranks)
    return [fetch(range(start, start + size)) for start in starts]


def train(
    stage: Stage, engine: Engine, fetch: Callable[[Sequence[int]], Batch], loss_func: LossFunc, train_iters: int
) -> None:
    """Train from the latest checkpoint (or the start) to `train_iters` updates.

    `fetch` turns global sample numbers into one micro-batch; it must be a pure function of them, so that a resumed
    run reads what the uninterrupted one would have read.
    """
    c = engine.train_config
    resume = stage.work / "resume"
    start = checkpoint.load(engine, resume)
    log = LossLog(stage, start)
    tokens = c.global_batch_size * fetch(range(1))["tokens"].shape[1]  # of a step, padding included
    with stage.progress("train", train_iters, "steps", start) as progress:
        for step in range(start, train_iters):
            began = time.monotonic()
            result = engine.train_step(micro_batches(engine, fetch, step * c.global_batch_size), loss_func)
            tokens_per_second = tokens / (time.monotonic() - began)
            log.write(step + 1, {**result.values, "tokens_per_second": tokens_per_second})
            progress.update(1, loss=f"{result.metrics['loss']:.4f}", tokens_per_s=f"{tokens_per_second:.0f}")
            save_if_due(stage, engine, resume, step + 1, train_iters)
    stage.metrics |= log.summary()
    stage.metrics |= {"steps": train_iters, "tokens": train_iters * tokens}


def save_if_due(stage: Stage, engine: Engine, resume: Path, done: int, train_iters: int) -> None:
    """Save a checkpoint every `save_interval` steps, and before raising Preempted when a rank was told to stop."""
    stop = parallel.any_rank(stage.preempted)
    if stop or (done % engine.train_config.save_interval == 0 and done < train_iters):
        checkpoint.save(engine, resume, done)
    if stop:
        raise Preempted(stage.name)


class LossLog:
    """The curves of a training stage: TensorBoard, and losses.jsonl (one line a step). Silent on ranks other than 0.

    On resumption after step `start`, what a killed run logged beyond it is dropped.
    """

    def __init__(self, stage: Stage, start: int) -> None:
        self.active = stage.rank == 0
        if not self.active:
            return
        from torch.utils.tensorboard import SummaryWriter

        self.tensorboard = SummaryWriter(str(stage.tensorboard), purge_step=start + 1)
        self.path = stage.work / "losses.jsonl"
        cut_back_jsonl(self.path, lambda line: line["step"] <= start)
        self.file = open(self.path, "a")  # noqa: SIM115  (closed by summary)

    def write(self, step: int, values: dict[str, float]) -> None:
        """One step's metrics."""
        if not self.active:
            return
        for name, value in values.items():
            self.tensorboard.add_scalar(name, value, step)
        self.tensorboard.flush()
        self.file.write(json.dumps({"step": step, **values}) + "\n")
        self.file.flush()

    def summary(self, curve_of: str = "loss") -> dict[str, Any]:
        """For the manifest: the last step's metrics and the curve of one of them, thinned to a few hundred points."""
        if not self.active:
            return {}
        self.file.close()
        steps = list(read_jsonl(self.path))
        curve = [[s["step"], s[curve_of]] for s in steps[:: max(1, len(steps) // CURVE_POINTS)]]
        return {**{k: v for k, v in steps[-1].items() if k != "step"}, "curve": curve}


def publish_model(stage: Stage, engine: Engine, eos_token_id: int) -> None:
    """Put hf/ and megatron/ into the stage's output. Every rank calls it."""
    checkpoint.save_model(engine, stage.work / "megatron")
    weights = hf.gather(engine.bare, engine.model_config)
    if stage.rank == 0:
        hf.save(weights, engine.model_config, stage.profile["tokenizer"], eos_token_id, stage.work / "hf")
    dist.barrier()
