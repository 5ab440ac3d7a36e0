"""The training engine on a GPU: Transformer Engine layers, FP8, NCCL. Run by `make gpu-check`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pretrain.config import ModelConfig, OptimizerConfig, ParallelConfig, PrecisionConfig, PretrainConfig

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
MODEL = ModelConfig(
    num_layers=2,
    hidden_size=256,
    num_attention_heads=4,
    num_query_groups=4,
    ffn_hidden_size=512,
    vocab_size=512,
    max_position_embeddings=128,
    init_method_std=0.02,
)
ALL_REDUCE = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.full((4,), float(dist.get_rank() + 1), device="cuda")
dist.all_reduce(x)
n = dist.get_world_size()
assert x.tolist() == [n * (n + 1) / 2] * 4, x
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def one_process() -> Iterator[None]:
    from pretrain import parallel

    parallel.initialize(ParallelConfig(nproc_per_node=1), seed=1234)
    yield
    parallel.finalize()


def losses(precision: dict[str, object], steps: int = 20) -> list[float]:
    """Loss by step of a small model that learns one batch by heart."""
    from pretrain.engine import Engine, lm_loss

    train = PretrainConfig(
        parallel=ParallelConfig(nproc_per_node=1),
        precision=PrecisionConfig.model_validate(precision),
        optimizer=OptimizerConfig(lr=1e-3),
        micro_batch_size=2,
        global_batch_size=2,
        seq_length=128,
    )
    torch.manual_seed(1234)
    engine = Engine(MODEL, train, weights=None, train_iters=steps)
    tokens = torch.randint(0, MODEL.vocab_size, (2, 129), generator=torch.Generator().manual_seed(7))
    batch = {"tokens": tokens[:, :-1], "labels": tokens[:, 1:], "loss_mask": torch.ones(2, 128)}
    return [engine.train_step([batch], lm_loss).metrics["loss"] for _ in range(steps)]


def test_transformer_engine_layers_learn_in_bf16(one_process: None) -> None:
    curve = losses({"dtype": "bf16"})
    assert curve[-1] < 0.8 * curve[0]


def test_packed_documents_do_not_see_each_other(one_process: None) -> None:
    """Two rows of three documents, against each document alone."""
    from pretrain.engine import Engine, token_logprobs

    train = PretrainConfig(
        parallel=ParallelConfig(nproc_per_node=1), micro_batch_size=2, global_batch_size=2, seq_length=96
    )
    engine = Engine(MODEL.model_copy(update={"init_method_std": 0.1}), train, weights=None)  # so that context matters
    tokens = torch.randint(0, MODEL.vocab_size, (2, 97), generator=torch.Generator().manual_seed(7))
    batch = {"tokens": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}
    documents = torch.arange(96).div(32, rounding_mode="floor").expand(2, 96).contiguous()

    def logprobs(rows: dict[str, torch.Tensor]) -> torch.Tensor:
        (found,) = engine.forward([rows], lambda logits, b: token_logprobs(logits, b["labels"]).cpu())
        return found

    packed = logprobs(batch | {"document_ids": documents})
    alone = torch.cat([logprobs({k: v[:, at : at + 32] for k, v in batch.items()}) for at in (0, 32, 64)], dim=1)
    seeing_all = logprobs(batch)
    assert (packed - alone).abs().mean() < 0.1 * (packed - seeing_all).abs().mean()  # bf16 rounds


@pytest.mark.parametrize("recipe", ["delayed", "tensorwise", "blockwise"])
@pytest.mark.parametrize("fp8", ["hybrid", "e4m3"])
def test_fp8_follows_the_bf16_losses(one_process: None, fp8: str, recipe: str) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("FP8 recipes need compute capability 9.0 (Hopper) or later")
    reference = losses({"dtype": "bf16"})
    curve = losses({"dtype": "bf16", "fp8": fp8, "fp8_recipe": recipe, "fp8_amax_history_len": 16})
    assert curve != reference  # FP8 was really on
    assert curve == pytest.approx(reference, rel=0.05)


def test_nccl_reduces_over_all_devices(tmp_path: Path) -> None:
    script = tmp_path / "all_reduce.py"
    script.write_text(ALL_REDUCE)
    count = str(torch.cuda.device_count())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
