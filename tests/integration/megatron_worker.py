"""What the processes of test_megatron.py run under torchrun: a few real training steps for each job of a JSON list.

{"name": NAME, "parallel": {...}, "dtype": "fp32", "weights": DIR or null, "steps": N, "save": DIR or null,
 "load": DIR or null, "export": DIR or null, "may_fail": whether an error is the job's result,
 "without": the repair of pretrain/device.py to undo, "boundaries": packed documents as Transformer Engine takes them,
 "disk_bytes": no file may grow larger while the checkpoint is saved,
 "losses": FILE of logits and batches: the value and gradient of each loss instead of training}

The curves, [step, loss, gradient norm, learning rate] by job name, go to the file that the second argument names.
"""

import contextlib
import json
import os
import resource
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

SEQ, GLOBAL_BATCH, VOCAB = 16, 8, 96


def main() -> None:
    from pretrain import parallel

    results = {job["name"]: outcome(job) for job in json.loads(Path(sys.argv[1]).read_text())}
    parallel.finalize()
    if os.environ["RANK"] == "0":
        Path(sys.argv[2]).write_text(json.dumps(results))


def outcome(job: dict[str, Any]) -> Any:
    with without_repair(job.get("without")), boundaries_for_masks(job.get("boundaries", False)):
        try:
            return losses(job) if job.get("losses") else run(job)
        except Exception as error:
            if not job.get("may_fail"):
                raise
            return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def without_repair(name: str | None) -> Iterator[None]:
    """A method of megatron's optimizer as megatron wrote it."""
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    if name is None:
        yield
        return
    repaired = getattr(DistributedOptimizer, name)
    closure = dict(zip(repaired.__code__.co_freevars, repaired.__closure__, strict=True))
    (original,) = (cell.cell_contents for cell in closure.values())  # each repair closes over what it replaces
    with mock.patch.object(DistributedOptimizer, name, original):
        yield


@contextlib.contextmanager
def boundaries_for_masks(wanted: bool) -> Iterator[None]:
    """The way of the GPU: `thd` layout, with an attention that reads boundaries as Transformer Engine's does."""
    if not wanted:
        yield
        return
    import torch

    from pretrain import engine, model

    class BoundaryAttention(torch.nn.Module):
        def __init__(self, config: Any, **_: Any) -> None:
            super().__init__()

        def forward(self, q: Any, k: Any, v: Any, attention_mask: Any, packed_seq_params: Any, **_: Any) -> Any:
            assert attention_mask is None and q.dim() == 3  # [tokens, heads, head_dim]
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
            documents = [
                [x[a:b].transpose(0, 1) for x in (q, k, v)]
                for a, b in pairwise(packed_seq_params.cu_seqlens_q.tolist())
            ]
            attend = torch.nn.functional.scaled_dot_product_attention
            return torch.cat([attend(*d, is_causal=True).transpose(0, 1).flatten(1) for d in documents])

    spec_of = model._cpu_spec

    def spec(config: Any) -> Any:
        found = spec_of(config)
        found.layer_specs[0].submodules.self_attention.submodules.core_attention = BoundaryAttention
        return found

    with mock.patch.object(model, "_cpu_spec", spec), mock.patch.object(engine, "takes_boundaries", lambda: True):
        yield


def losses(job: dict[str, Any]) -> dict[str, list[float]]:
    """Loss, units and this rank's part of the gradient of every loss of the recipe, on given logits."""
    import torch
    from megatron.core import parallel_state

    from pretrain import parallel
    from pretrain.config import ParallelConfig
    from pretrain.engine import lm_loss
    from rl.config import GrpoConfig
    from rl.reward.model import prm_loss
    from rl.trainer import _loss

    parallel_state.destroy_model_parallel()
    parallel.initialize(ParallelConfig(**job["parallel"]), seed=1)
    case = torch.load(job["losses"], weights_only=True)
    rank, size = (getattr(parallel_state, f"get_tensor_model_parallel_{what}")() for what in ("rank", "world_size"))
    grpo = GrpoConfig(temperature=case["temperature"], kl_coef=case["kl_coef"], clip_eps=case["clip_eps"])
    results = {}
    for name, loss in (("lm", lm_loss), ("prm", prm_loss), ("grpo", lambda *args: _loss(grpo, *args))):
        shard = case["logits"].chunk(size, dim=-1)[rank].clone().requires_grad_()
        total, units, _ = loss(shard, case[name])
        total.backward()
        torch.save(shard.grad, f"{job['losses']}.{name}.{rank}")
        results[name] = [total.item(), float(units)]
    return results


@contextlib.contextmanager
def full_disk(limit: int | None) -> Iterator[None]:
    """No file of this process, or of a child, may grow beyond `limit` bytes: writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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
        optimizer=OptimizerConfig(lr=job.get("lr", 1e-2), lr_schedule="multi_step", lr_warmup_steps=2),
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
            with full_disk(job.get("disk_bytes")):
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
