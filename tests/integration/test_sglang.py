"""The real SGLang server on this CPU, fed by the rollout engine. One start serves most tests; they run in order."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from evals.client import Completion, RequestRefused, WeightVersionMismatch
from evals.endpoint import Endpoint
from evals.prompts import Prompt
from evals.server import running
from evals.server_config import ServerConfig
from rl.rollout.engine import RolloutEngine
from rl.rollout.nccl_sync import BroadcastSync
from tests.rl.checkpoints import VOCABULARY, write_checkpoint

pytestmark = pytest.mark.integration

CONFIG = ServerConfig(
    device="cpu",
    dtype="float32",
    mem_fraction_static=0.2,
    max_total_tokens=8000,
    max_running_requests=64,
    start_timeout_seconds=300,
    request_timeout_seconds=120,
)
# Lengths far apart, so that one batch needs several attention buckets; two share a prefix
PROMPTS = [list(range(5, 5 + length)) for length in (3, 4, 20, 21, 70, 150)] + [[9, 8, 7], [9, 8, 7, 6, 5, 4]]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,  # far from uniform, so that a wrong mask or a wrong order shows
        bos_token_id=0,
        eos_token_id=0,
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config).eval()
    return model


@pytest.fixture(scope="module")
def engine(model: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutEngine]:
    folder = tmp_path_factory.mktemp("sglang")
    write_checkpoint(model, folder / "hf")
    with RolloutEngine(folder / "hf", CONFIG, folder / "server.log", seed=1) as engine:
        yield engine


def sampling(**changes: object) -> dict[str, object]:
    return {"temperature": 1.0, "max_new_tokens": 12, "ignore_eos": True} | changes


@torch.inference_mode()
def largest_difference(
    model: LlamaForCausalLM, groups: list[list[Completion]], prompts: list[list[int]], temperature: float = 1.0
) -> float:
    """Between the server's log-probabilities and transformers', over all completions."""
    worst = 0.0
    for prompt, group in zip(prompts, groups, strict=True):
        for completion in group:
            assert completion.logprobs is not None
            ids = torch.tensor([prompt + completion.output_ids])
            logprobs = (model(ids).logits[0, len(prompt) - 1 : -1].double() / temperature).log_softmax(-1)
            expected = logprobs.gather(1, torch.tensor(completion.output_ids)[:, None])[:, 0]
            worst = max(worst, (expected - torch.tensor(completion.logprobs)).abs().max().item())
    return worst


def retrained(model: LlamaForCausalLM, seed: int) -> dict[str, torch.Tensor]:
    """Give the model other weights, in place; its state dict."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return dict(model.state_dict())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_samples_carry_the_log_probabilities_of_transformers(
    engine: RolloutEngine, model: LlamaForCausalLM, temperature: float
) -> None:
    groups = engine.sample(PROMPTS, 3, sampling(temperature=temperature))
    assert [len(group) for group in groups] == [3] * len(PROMPTS)
    assert all(len(c.output_ids) == 12 and c.finish_reason == "length" for group in groups for c in group)
    assert largest_difference(model, groups, PROMPTS, temperature) < 1e-4


def test_samples_of_one_prompt_differ_and_greedy_ones_do_not(engine: RolloutEngine) -> None:
    sampled, greedy = (engine.sample([PROMPTS[0]], 8, sampling(temperature=t))[0] for t in (1.0, 0.0))
    assert len({tuple(c.output_ids) for c in sampled}) > 1
    assert len({tuple(c.output_ids) for c in greedy}) == 1


def test_a_stop_token_ends_the_sample_and_is_part_of_it(engine: RolloutEngine) -> None:
    stops = list(range(VOCABULARY // 2))
    group = engine.sample([PROMPTS[2]], 16, sampling(stop_token_ids=stops, max_new_tokens=40, ignore_eos=False))[0]
    for completion in group:
        *before, last = completion.output_ids
        assert completion.finish_reason == "stop" and last in stops and not set(before) & set(stops)
        assert completion.logprobs is not None and len(completion.logprobs) == len(completion.output_ids)


def test_its_openai_route_is_an_endpoint_of_the_evaluation(engine: RolloutEngine) -> None:
    ids = [[5, 6, 7], [20, 21, 22, 23]]
    own = engine.sample(ids, 1, sampling(temperature=0.0, max_new_tokens=8))
    endpoint = Endpoint(f"{engine.client().url}/v1", "default", "completions")
    prompts = [Prompt(" ".join(f"w{i}" for i in p)) for p in ids]
    answers = dict(endpoint.write(prompts, {"temperature": 0.0, "max_new_tokens": 8}, 1))
    assert sorted(answers) == [0, 1]
    for i, (completion,) in enumerate(own):
        written = answers[i]
        assert isinstance(written, list)
        assert written[0].text.split() == [f"w{token}" for token in completion.output_ids]
        assert (written[0].tokens, written[0].finish_reason) == (8, "length")


def test_progress_counts_every_completion(engine: RolloutEngine) -> None:
    counts: list[int] = []
    engine.sample(PROMPTS, 20, sampling(max_new_tokens=2), progress=counts.append)
    assert len(counts) > 1 and sum(counts) == 20 * len(PROMPTS)


def test_a_wrong_request_is_refused_and_does_not_restart_the_server(engine: RolloutEngine) -> None:
    with pytest.raises(RequestRefused, match="temperature"):
        engine.sample([PROMPTS[0]], 1, sampling(temperature=-1.0))
    assert engine.restarts == 0


def test_new_weights_answer_with_their_version(engine: RolloutEngine, model: LlamaForCausalLM) -> None:
    engine.sync_weights(retrained(model, 1), version=3)
    groups = engine.sample(PROMPTS, 2, sampling())
    assert {c.weight_version for group in groups for c in group} == {"3"}
    assert largest_difference(model, groups, PROMPTS) < 1e-4


def test_a_version_that_was_not_loaded_is_noticed(engine: RolloutEngine) -> None:
    with pytest.raises(WeightVersionMismatch, match="'3', expected '4'"):
        engine.client().check_weight_version("4")


def test_weights_arrive_by_broadcast_too(engine: RolloutEngine, model: LlamaForCausalLM) -> None:
    client, sync = engine.client(), BroadcastSync(tp_size=1, backend="gloo")
    for version in ("20", "21"):  # the second one in the same process group
        sync.send(client, retrained(model, int(version)), version)
        groups = client.generate(PROMPTS, sampling(), n=1, return_logprob=True)
        assert {c.weight_version for group in groups for c in group} == {version}
        assert largest_difference(model, groups, PROMPTS) < 1e-4
    sync.close()


@pytest.mark.parametrize("victim", ["first process", "model process"])
def test_a_killed_server_is_replaced_and_the_step_repeated(
    engine: RolloutEngine, model: LlamaForCausalLM, victim: str
) -> None:
    engine.sync_weights(retrained(model, 2), version=5)
    before, restarts = engine.processes(), engine.restarts
    chosen = before[0] if victim == "first process" else next(p for p in before if "scheduler" in p.cmdline()[0])
    timer = threading.Timer(0.3, os.kill, (chosen.pid, signal.SIGKILL))
    timer.start()
    groups = engine.sample(PROMPTS * 8, 4, sampling(max_new_tokens=60))  # a second or two of work
    timer.join()
    assert engine.restarts == restarts + 1
    assert {c.weight_version for group in groups for c in group} == {"5"}
    assert largest_difference(model, groups[: len(PROMPTS)], PROMPTS) < 1e-4
    assert not any(map(running, before))


def test_stopping_leaves_nothing_behind(engine: RolloutEngine) -> None:
    processes = engine.processes()
    weights = [p for p in Path("/dev/shm").glob(f"mathmill-weights-{os.getpid()}-*")]
    assert len(processes) >= 3 and len(weights) == 1
    engine.__exit__(None, None, None)
    deadline = time.monotonic() + 10
    while any(map(running, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(running, processes)) and not weights[0].exists()
    assert not [c for c in psutil.Process().children(recursive=True) if "sglang" in " ".join(c.cmdline())]
