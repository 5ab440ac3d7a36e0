"""What the processes of test_megatron.py run under torchrun: a few real training steps for each job of a JSON list.

{"name": NAME, "parallel": {...}, "dtype": "fp32", "weights": DIR or null, "steps": N, "save": DIR or null,
 "load": DIR or null, "export": DIR or null, "without": the repair of pretrain/device.py to undo, or null}

The curves, [step, loss, gradient norm, learning rate] by job name, go to the file that the second argument names.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SEQ, GLOBAL_BATCH, VOCAB = 16, 8, 96


def main() -> None:
    from pretrain import parallel

    curves = {job["name"]: without_repair(job) for job in json.loads(Path(sys.argv[1]).read_text())}
    parallel.finalize()
    if os.environ["RANK"] == "0":
        Path(sys.argv[2]).write_text(json.dumps(curves))


def without_repair(job: dict[str, Any]) -> list[list[float]] | str:
    """The job's curve, with the method of megatron's optimizer that it names as megatron wrote it; or its error."""
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    name = job.get("without")
    if name is None:
        return run(job)
    repaired = getattr(DistributedOptimizer, name)
    closure = dict(zip(repaired.__code__.co_freevars, repaired.__closure__, strict=True))
    (original,) = (cell.cell_contents for cell in closure.values())  # each repair closes over what it replaces
    setattr(DistributedOptimizer, name, original)
    try:
        return run(job)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        setattr(DistributedOptimizer, name, repaired)


def run(job: dict[str, Any]) -> list[list[float]]:
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state

    from pretrain import checkpoint, hf, loop, parallel
    from pretrain.config import ModelConfig, OptimizerConfig, ParallelConfig, PrecisionConfig
    from pretrain.engine import Engine, lm_loss
    from sft.config import SftConfig

    model = ModelConfig(
        num_layers=4,
        hidden_size=32,
        num_attention_heads=4,
        num_query_groups=2,
        ffn_hidden_size=64,
        vocab_size=VOCAB,
        max_position_embeddings=64,
        init_method_std=0.1,
        tie_word_embeddings=job.get("tie", False),
    )
    config = SftConfig(
        parallel=ParallelConfig(**job["parallel"]),
        precision=PrecisionConfig(dtype=job.get("dtype", "fp32")),
        optimizer=OptimizerConfig(lr=1e-2, lr_schedule="multi_step", lr_warmup_steps=2),
        micro_batch_size=2,
        global_batch_size=GLOBAL_BATCH,
        train_iters=10,
        seq_length=SEQ,
        sources=[],
    )
    parallel_state.destroy_model_parallel()  # the job before had another split of the same processes
    parallel.initialize(config.parallel, seed=1)
    engine = Engine(model, config, job.get("weights"), train_iters=10)

    def fetch(indices: range) -> dict[str, torch.Tensor]:
        rows = [torch.randint(0, VOCAB, (SEQ + 1,), generator=torch.Generator().manual_seed(i)) for i in indices]
        data = torch.stack(rows)
        mask = torch.stack([(torch.arange(SEQ) >= i % 7).float() for i in indices])  # rows of unequal weight
        documents = torch.arange(SEQ).div(5, rounding_mode="floor").expand(len(rows), SEQ).contiguous()
        return {"tokens": data[:, :-1], "labels": data[:, 1:], "loss_mask": mask, "document_ids": documents}

    start = checkpoint.load(engine, Path(job["load"])) if job.get("load") else 0
    curve = []
    for step in range(start, job["steps"]):
        result = engine.train_step(loop.micro_batches(engine, fetch, step * GLOBAL_BATCH), lm_loss)
        curve.append([step, result.metrics["loss"], result.grad_norm, result.lr])
        if job.get("save") and step + 1 == job["save_at"]:
            checkpoint.save(engine, Path(job["save"]), step + 1)
    if job.get("export"):
        weights = hf.gather(engine.bare, model)
        if dist.get_rank() == 0:
            hf.save(weights, model, job["export"], 0, Path(job["export"]))
        logits = engine.forward([fetch(range(2))], lambda logits, batch: logits.clone())
        if parallel_last_stage():
            gathered = gather_vocab(logits[0])
            if dist.get_rank() == dist.get_world_size() - 1:
                torch.save(gathered, job["export"] + "/logits.pt")
    dist.barrier()
    return curve


def parallel_last_stage() -> bool:
    from megatron.core import parallel_state

    return bool(parallel_state.is_pipeline_last_stage())


def gather_vocab(logits):  # type: ignore[no-untyped-def]
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state

    shards = [torch.empty_like(logits) for _ in range(parallel_state.get_tensor_model_parallel_world_size())]
    dist.all_gather(shards, logits.contiguous(), group=parallel_state.get_tensor_model_parallel_group())
    return torch.cat(shards, dim=-1)


if __name__ == "__main__":
    main()
