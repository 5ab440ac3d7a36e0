"""The engine on real process groups: parallelism changes nothing, resumption changes nothing, exports agree."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.integration
WORKER = Path(__file__).with_name("megatron_worker.py")
ONE = {"nproc_per_node": 1}
PARALLEL = {
    "tp2": {"nproc_per_node": 2, "tensor_model_parallel_size": 2},
    "tp2-sp": {"nproc_per_node": 2, "tensor_model_parallel_size": 2, "sequence_parallel": True},
    "pp2": {"nproc_per_node": 2, "pipeline_model_parallel_size": 2},
    "dp2": {"nproc_per_node": 2},
}
REPAIRS = ("sharded_state_dict", "_set_main_param_and_optimizer_states", "load_state_dict")
Curves = dict[str, Any]  # lists of [step, loss, gradient norm, learning rate], or an error
TEMPERATURE, BETA, CLIP = 0.7, 0.04, 0.2


def launch(folder: Path, processes: int, jobs: list[dict[str, Any]]) -> Curves:
    """Run the worker under torchrun: each job's curve of [step, loss, gradient norm, learning rate]."""
    description, result = folder / f"jobs-{processes}.json", folder / f"curves-{processes}.json"
    description.write_text(json.dumps(jobs))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    env = {**os.environ, "PYTHONPATH": str(WORKER.parents[2]), "OMP_NUM_THREADS": "1"}
    command = [*torchrun, str(WORKER), str(description), str(result)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    curves: Curves = json.loads(result.read_text())
    return curves


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("megatron")


@pytest.fixture(scope="module")
def alone(folder: Path) -> Curves:
    """One process: start weights exported, five steps from them with a checkpoint after three, resumptions."""
    start, saved, bf16 = (str(folder / name) for name in ("start", "checkpoint", "checkpoint-bf16"))
    whole = {"parallel": ONE, "weights": start, "steps": 5, "save_at": 3}
    resumed = {"parallel": ONE, "load": saved, "steps": 5}
    return launch(
        folder,
        1,
        [
            {"name": "start", "parallel": ONE, "steps": 0, "export": start},
            whole | {"name": "whole", "save": saved},
            whole | {"name": "boundaries", "boundaries": True},
            whole | {"name": "diverged", "lr": 1e30, "may_fail": True},
            whole | {"name": "bf16", "dtype": "bf16", "save": bf16},
            resumed | {"name": "bf16-resumed", "dtype": "bf16", "load": bf16},
            resumed | {"name": "disk-full", "save": saved, "save_at": 4, "disk_bytes": 4096, "may_fail": True},
            resumed | {"name": "resumed"},
            *(resumed | {"name": name, "without": name, "may_fail": True} for name in REPAIRS),
        ],
    )


@pytest.fixture(scope="module")
def together(folder: Path, alone: Curves) -> Curves:
    """Two processes: the same steps and resumption under every parallelism; exports; losses; a torn checkpoint."""
    start, saved = str(folder / "start"), str(folder / "checkpoint")
    torn = Path(shutil.copytree(saved, folder / "torn"))
    for data in torn.glob("*/*.distcp"):
        os.truncate(data, data.stat().st_size // 2)
    jobs: list[dict[str, Any]] = [
        {"name": name, "parallel": parallel, "weights": start, "steps": 3} for name, parallel in PARALLEL.items()
    ]
    jobs += [
        {"name": f"resumed-{name}", "parallel": PARALLEL[name], "load": saved, "steps": 5}
        for name in ("tp2", "pp2", "dp2")
    ]
    jobs += [
        {"name": "tp2-export", "parallel": PARALLEL["tp2"], "steps": 2, "export": str(folder / "tp2")},
        {"name": "pp2-export", "parallel": PARALLEL["pp2"], "tie": True, "steps": 2, "export": str(folder / "pp2")},
        {"name": "pp2-boundaries", "parallel": PARALLEL["pp2"], "weights": start, "steps": 3, "boundaries": True},
        {"name": "losses", "parallel": PARALLEL["tp2"], "losses": str(folder / "case.pt")},
        {"name": "torn", "parallel": PARALLEL["dp2"], "load": str(torn), "steps": 5, "may_fail": True},
    ]
    torch.save(case(), folder / "case.pt")
    return launch(folder, 2, jobs)


def case() -> dict[str, Any]:
    """Logits of two rows, and what each loss wants beside them."""
    rng = torch.Generator().manual_seed(5)
    labels = torch.randint(0, 96, (2, 7), generator=rng)
    mask = torch.tensor([[0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]]).float()
    old, ref = (-torch.rand(2, 7, generator=rng) * 4 for _ in range(2))
    return {
        "logits": torch.randn(2, 7, 96, generator=rng) * 3,
        "temperature": TEMPERATURE,
        "kl_coef": BETA,
        "clip_eps": CLIP,
        "lm": {"labels": labels, "loss_mask": mask},
        "prm": {
            "tags": mask.bool(),
            "step_labels": torch.rand(2, 7, generator=rng) * mask,
            "verdict": torch.tensor([[11, 70]] * 2),  # on different tensor-parallel ranks
        },
        "grpo": {
            "labels": labels,
            "mask": mask,
            "old_logprobs": old * mask,
            "ref_logprobs": ref * mask,
            "advantages": torch.tensor([1.5, -0.5]),
        },
    }


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def by_hand(name: str) -> tuple[float, float]:
    """The sum and the number of units of a loss, from its formula, in float64."""
    given = case()
    logits = given["logits"].double().numpy()
    batch = {k: v.double().numpy() for k, v in given[name].items()}
    if name == "prm":
        good, bad = (log_softmax(logits)[..., int(token)] for token in batch["verdict"][0])
        p = np.exp(good) / (np.exp(good) + np.exp(bad))
        y, at = batch["step_labels"], batch["tags"].astype(bool)
        return -(y * np.log(p) + (1 - y) * np.log(1 - p))[at].sum(), at.sum()
    labels = batch["labels"].astype(int)[..., None]
    if name == "lm":
        logp = np.take_along_axis(log_softmax(logits), labels, -1)[..., 0]
        return -(logp * batch["loss_mask"]).sum(), batch["loss_mask"].sum()
    logp = np.take_along_axis(log_softmax(logits / TEMPERATURE), labels, -1)[..., 0]
    ratio, a = np.exp(logp - batch["old_logprobs"]), batch["advantages"][:, None]
    quotient = np.exp(batch["ref_logprobs"] - logp)
    token = np.minimum(ratio * a, ratio.clip(1 - CLIP, 1 + CLIP) * a) - BETA * (quotient - np.log(quotient) - 1)
    return -((token * batch["mask"]).sum(1) / batch["mask"].sum(1)).sum(), len(logp)


def assert_same(ours: list[list[float]], theirs: list[list[float]]) -> None:
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PARALLEL)
def test_parallelism_changes_no_loss_and_no_gradient_norm(alone: Curves, together: Curves, name: str) -> None:
    assert_same(together[name], alone["whole"][:3])


def test_a_resumed_run_repeats_the_uninterrupted_one_exactly(alone: Curves) -> None:
    assert alone["resumed"] == alone["whole"][3:]


@pytest.mark.parametrize("name", ["lm", "prm", "grpo"])
def test_the_losses_are_their_formulas_with_the_vocabulary_split_over_ranks(together: Curves, name: str) -> None:
    assert together["losses"][name] == pytest.approx(by_hand(name), rel=1e-5)


def test_the_gradient_of_the_language_model_loss_is_softmax_minus_one_hot(folder: Path, together: Curves) -> None:
    given = case()
    logits, mask = given["logits"].double().numpy(), given["lm"]["loss_mask"].double().numpy()
    expected = (np.exp(log_softmax(logits)) - np.eye(96)[given["lm"]["labels"].numpy()]) * mask[..., None]
    shards = [torch.load(folder / f"case.pt.lm.{rank}", weights_only=True) for rank in range(2)]
    np.testing.assert_allclose(torch.cat(shards, -1).numpy(), expected, atol=1e-6)


def test_documents_separated_by_boundaries_train_as_those_separated_by_a_mask(alone: Curves, together: Curves) -> None:
    """The `thd` layout, which Transformer Engine's attention takes on GPUs, through the rest of megatron's model."""
    assert_same(alone["boundaries"], alone["whole"])
    assert_same(together["pp2-boundaries"], alone["whole"][:3])


def test_a_gradient_that_is_no_number_ends_the_run(alone: Curves) -> None:
    assert alone["diverged"].startswith("UsageError: update 2 diverged: ") and "nan" in alone["diverged"]


def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before_it(folder: Path, alone: Curves) -> None:
    assert alone["disk-full"].startswith(f"UsageError: checkpoint {folder}/checkpoint/step_00000004 cannot be written")
    assert "\n" not in alone["disk-full"]
    assert alone["resumed"] == alone["whole"][3:]
    assert [p.name for p in (folder / "checkpoint").glob("step_*")] == ["step_00000003"]  # the torn one is gone


def test_a_torn_checkpoint_is_one_line(folder: Path, together: Curves) -> None:
    assert together["torn"].startswith(f"UsageError: checkpoint {folder}/torn/step_00000003 cannot be read")
    assert "\n" not in together["torn"]


def test_each_repair_of_megatrons_optimizer_is_needed(alone: Curves) -> None:
    """docs/decisions/megatron-on-cpu.md; when a new megatron-core makes this fail, drop the repair."""
    no_state, no_step, shared_step = (alone[name] for name in REPAIRS)
    assert isinstance(no_state, str) and "cannot be read" in no_state
    assert no_step == "KeyError: 'step'"
    assert not isinstance(shared_step, str)
    assert shared_step[0][1] == alone["whole"][3][1]  # the first loss is of the loaded weights
    assert abs(shared_step[1][1] - alone["whole"][4][1]) > 1e-4  # and the next one has left the course


@pytest.mark.parametrize("name", ["tp2", "pp2", "dp2"])
def test_a_checkpoint_resumes_under_another_parallelism(alone: Curves, together: Curves, name: str) -> None:
    assert_same(together[f"resumed-{name}"], alone["whole"][3:])


@pytest.mark.parametrize("name", ["tp2", "pp2"])
def test_the_hugging_face_export_gives_the_same_logits(folder: Path, together: Curves, name: str) -> None:
    """pp2 has tied embeddings. Each packed document alone gives its logits in the pack: packing leaks nothing."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
    rows = [torch.randint(0, 96, (17,), generator=torch.Generator().manual_seed(i)) for i in range(2)]
    tokens = torch.stack(rows)[:, :-1]
    ours = torch.load(folder / name / "logits.pt", weights_only=True)
    documents = torch.arange(16).div(5, rounding_mode="floor")
    for document in range(4):
        at = torch.nonzero(documents == document).flatten()
        with torch.no_grad():
            theirs = model(tokens[:, at]).logits
        assert (ours[:, at] - theirs).abs().max() < 1e-4


def test_pipeline_stages_start_from_different_weights(folder: Path, together: Curves) -> None:
    """Two steps from random weights (std 0.1) move them by a hundredth: equal draws would still be close."""
    from safetensors.torch import load_file

    weights = load_file(folder / "pp2" / "model.safetensors")
    first, third = (weights[f"model.layers.{n}.self_attn.q_proj.weight"] for n in (0, 2))
    assert (first - third).abs().mean() > 0.05


def test_bf16_follows_fp32(alone: Curves) -> None:
    ours, theirs = (torch.tensor([loss for _, loss, *_ in alone[name]]) for name in ("bf16", "whole"))
    assert not torch.equal(ours, theirs)
    torch.testing.assert_close(ours, theirs, rtol=5e-3, atol=0)


def test_bf16_resumes_with_its_fp32_master_weights(alone: Curves) -> None:
    assert alone["bf16-resumed"] == alone["bf16"][3:]
