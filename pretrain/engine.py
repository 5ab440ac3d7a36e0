"""The training step that every stage shares: megatron's schedules, DDP, distributed optimizer and scheduler.

A stage hands the engine micro-batches (dicts of tensors, all of one shape [micro_batch, seq]) and a loss over the
log-probabilities of the labels. A loss is a *sum* and the *number of units* it is a sum over: the engine divides the
gradient by the number of units in the global batch, whatever the split over micro-batches and ranks, so that a mean
over tokens (pretraining, SFT) and a mean over outputs (GRPO) are both exact under any parallelism.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel import vocab_parallel_cross_entropy
from megatron.core.transformer.module import Float16Module

from pretrain import device, hf, model, optimizer
from pretrain.config import ModelConfig, TrainingConfig
from pretrain.schedule import Scheduler
from stage import UsageError

Batch = dict[str, torch.Tensor]
# (logits [b, s, vocab/tp], batch) -> (sum, number of units, {metric: sum over the same units})
LossFunc = Callable[[torch.Tensor, Batch], tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]]


@dataclass(frozen=True)
class StepResult:
    """One optimizer step. `metrics` are means over the units of the global batch, equal on every rank."""

    metrics: dict[str, float]
    grad_norm: float
    lr: float

    @property
    def values(self) -> dict[str, float]:
        """Everything there is to log about the step."""
        return {**self.metrics, "grad_norm": self.grad_norm, "lr": self.lr}


class Engine:
    """A GPTModel on this rank. With `train_iters` it trains; without, it only computes (a reference, a judge)."""

    def __init__(
        self,
        model_config: ModelConfig,
        train: TrainingConfig,
        weights: str | Path | None,
        train_iters: int | None = None,
    ) -> None:
        self.model_config, self.train_config = model_config, train
        self.bare = model.build(model_config, train)
        if weights is not None:
            hf.load(self.bare, model_config, weights)
        module = Float16Module(self.bare.config, self.bare) if train.precision.dtype == "bf16" else self.bare
        self.module: Any = module.eval()
        if train_iters is not None:
            self._make_trainable(module, train_iters)

    def _make_trainable(self, module: Any, train_iters: int) -> None:
        config = self.bare.config
        ddp = DistributedDataParallelConfig(
            use_distributed_optimizer=True,
            overlap_grad_reduce=device.on_gpu(),
            grad_reduce_in_fp32=True,
        )
        self.module = DistributedDataParallel(config, ddp, module).train()
        self.module.broadcast_params()
        self.optimizer = optimizer.build(self.module, self.train_config)
        self.scheduler = Scheduler(self.optimizer, self.train_config.optimizer, train_iters)
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = self.optimizer.scale_loss
        if ddp.overlap_grad_reduce:
            config.no_sync_func = self.module.no_sync

    @property
    def data_parallel_rank(self) -> int:
        return int(parallel_state.get_data_parallel_rank())

    @property
    def data_parallel_size(self) -> int:
        return int(parallel_state.get_data_parallel_world_size())

    def train_step(self, batches: Sequence[Batch], loss_func: LossFunc) -> StepResult:
        """Forward, backward and one update on this data-parallel rank's micro-batches (as many on every rank).

        Raises UsageError, on every rank, when the loss or the gradient norm is not finite.
        """
        self.module.zero_grad_buffer()
        self.optimizer.zero_grad()
        sums = self._run(batches, partial(_sum_and_count, loss_func), forward_only=False)
        lr = float(self.optimizer.param_groups[0]["lr"])
        _, grad_norm, _ = self.optimizer.step()
        self.scheduler.step(1)
        result = StepResult(_global_means(sums), float(grad_norm), lr)
        if not all(map(math.isfinite, result.values.values())):
            raise UsageError(
                f"update {self.scheduler.num_steps} diverged: loss {result.metrics['loss']}, gradient norm "
                f"{result.grad_norm}, lr {lr:g}; lower optimizer.lr or raise optimizer.lr_warmup_steps"
            )
        return result

    @torch.no_grad()
    def forward(self, batches: Sequence[Batch], compute: Callable[[torch.Tensor, Batch], Any]) -> list[Any]:
        """`compute(logits, batch)` for each micro-batch. On pipeline stages other than the last the list is empty."""
        if not batches:
            return []
        return self._run(batches, lambda batch, logits, non_loss_data: compute(logits, batch), forward_only=True)

    def _run(self, batches: Sequence[Batch], loss_func: Callable[..., Any], forward_only: bool) -> list[Any]:
        micro_batch_size, seq_length = batches[0]["tokens"].shape
        if "document_ids" in batches[0] and takes_boundaries():
            micro_batch_size, seq_length = 1, micro_batch_size * seq_length

        def forward_step(iterator: Any, module: Any) -> tuple[torch.Tensor, Callable[..., Any]]:
            batch = {k: v.to(device.device()) for k, v in next(iterator).items()}

            def loss_of(logits: torch.Tensor, **options: Any) -> Any:
                return loss_func(batch, logits.view(*batch["tokens"].shape, -1), **options)

            return module(**_model_inputs(batch)), loss_of

        results: list[Any] = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=iter(batches),
            model=[self.module],
            num_microbatches=len(batches),
            seq_length=seq_length,
            micro_batch_size=micro_batch_size,
            forward_only=forward_only,
            collect_non_loss_data=forward_only,
        )
        return results


def token_logprobs(logits: torch.Tensor, labels: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """log pi(label) of every position. logits [..., vocab/tp], labels [...] int64 -> [...] fp32, nats.

    log softmax(logits / temperature)[label], over the whole vocabulary although each rank holds only its part of it.
    """
    # megatron's cross-entropy overwrites its input: the quotient is a tensor of its own
    losses: torch.Tensor = vocab_parallel_cross_entropy(logits.float() / temperature, labels)
    return -losses


def lm_loss(logits: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Next-token cross-entropy, -log pi(y_t | y_<t), averaged over the tokens where `loss_mask` [b, s] is 1."""
    losses = -token_logprobs(logits, batch["labels"]) * batch["loss_mask"]
    return losses.sum(), batch["loss_mask"].sum(), {"loss": losses.detach().sum()}


def takes_boundaries() -> bool:
    """Whether attention is told of packed documents by their boundaries (Transformer Engine) or by a mask."""
    return device.on_gpu()


def document_mask(document_ids: torch.Tensor) -> torch.Tensor:
    """[b, s] document numbers -> [b, 1, s, s] bool, True where attention is forbidden: future, other documents."""
    s = document_ids.shape[1]
    future = torch.ones(s, s, dtype=torch.bool, device=document_ids.device).triu(1)
    return (future | (document_ids[:, :, None] != document_ids[:, None, :]))[:, None]


def packed_sequence_params(document_ids: torch.Tensor) -> PackedSeqParams:
    """The same separation for Transformer Engine: boundaries of the documents in the flattened [1, b * s] sequence.

    megatron's `thd` layout has no batch dimension: the tokens have to come flattened too.
    """
    b, s = document_ids.shape
    # rows differ even where their document numbers agree
    flat = (document_ids + torch.arange(b, device=document_ids.device)[:, None] * (s + 1)).flatten()
    inner = (torch.nonzero(flat[1:] != flat[:-1]).flatten() + 1).to(torch.int32)
    ends = torch.tensor([0, b * s], dtype=torch.int32, device=flat.device)
    bounds = torch.cat([ends[:1], inner, ends[1:]])
    longest = int((bounds[1:] - bounds[:-1]).max())
    return PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=bounds, cu_seqlens_kv=bounds, max_seqlen_q=longest, max_seqlen_kv=longest
    )


def _model_inputs(batch: Batch) -> dict[str, Any]:
    """Arguments of GPTModel. Positions need no restart at documents: rotary embeddings see only distances."""
    tokens = batch["tokens"]
    inputs: dict[str, Any] = {"attention_mask": None}
    if "document_ids" in batch and takes_boundaries():
        tokens = tokens.reshape(1, -1)
        inputs["packed_seq_params"] = packed_sequence_params(batch["document_ids"])
    elif "document_ids" in batch:
        inputs["attention_mask"] = document_mask(batch["document_ids"])
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    return inputs | {"input_ids": tokens, "position_ids": positions}


def _sum_and_count(
    loss_func: LossFunc, batch: Batch, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    total, units, metrics = loss_func(logits, batch)
    units = units.to(torch.int)
    return total, units.clone(), {**metrics, "units": units}


def _global_means(sums: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Means over all micro-batches and data-parallel ranks; computed on the last pipeline stage, sent to the others."""
    box: list[dict[str, float] | None] = [None]
    if parallel_state.is_pipeline_last_stage():
        names = sorted(sums[0])
        totals = torch.stack([torch.stack([s[n].double() for n in names]) for s in sums]).sum(0)
        dist.all_reduce(totals, group=parallel_state.get_data_parallel_group())
        by_name = dict(zip(names, totals.tolist(), strict=True))
        units = max(by_name.pop("units"), 1.0)
        box = [{name: total / units for name, total in by_name.items()}]
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        last = parallel_state.get_pipeline_model_parallel_last_rank()
        dist.broadcast_object_list(box, src=last, group=parallel_state.get_pipeline_model_parallel_group())
    assert box[0] is not None
    return box[0]
