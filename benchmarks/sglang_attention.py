"""Tokens a second of SGLang on this CPU: as mathmill starts it against as it is installed, in turn, in one run.

    python benchmarks/sglang_attention.py [--sequences 256] [--new-tokens 64] [--rounds 3] [--threads 1]

A random Llama of 1.4M parameters answers 16 prompts of 30 to 60 tokens, 16 times each. "As installed" is
`python -m sglang.launch_server` with the same options: SGLang's Transformers back end and torch_native attention.
Both servers are up at the same time, and idle while the other one works.
"""

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from evals.client import SGLangClient
from evals.server import SGLangServer
from evals.server_config import ServerConfig
from tests.rl.checkpoints import write_checkpoint

PROMPTS = 16


class InstalledServer(SGLangServer):
    """The same command line for the server as it is installed."""

    def command(self, nccl_port: int) -> list[str]:
        return [a.replace("evals.sglang_cpu", "sglang.launch_server") for a in super().command(nccl_port)]


def small_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 160, "intermediate_size": 432, "num_hidden_layers": 4, "num_attention_heads": 5}
    config = LlamaConfig(vocab_size=1024, max_position_embeddings=512, bos_token_id=0, eos_token_id=0, **shape)
    model: LlamaForCausalLM = LlamaForCausalLM(config)
    return model


def tokens_per_second(client: SGLangClient, sequences: int, new_tokens: int) -> float:
    draw = random.Random(0)
    prompts = [[draw.randrange(10, 1000) for _ in range(draw.randrange(30, 60))] for _ in range(PROMPTS)]
    sampling = {"temperature": 1.0, "max_new_tokens": new_tokens, "ignore_eos": True}
    began = time.perf_counter()
    groups = client.generate(prompts, sampling, n=sequences // PROMPTS, return_logprob=True)
    return sum(len(c.output_ids) for group in groups for c in group) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("sequences", 256), ("new-tokens", 64), ("rounds", 3), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    config = ServerConfig(
        device="cpu",
        dtype="float32",
        mem_fraction_static=0.2,
        max_total_tokens=60_000,
        max_running_requests=256,
        omp_num_threads=args.threads,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(small_llama(), folder / "hf")
        began = time.perf_counter()
        with SGLangServer(folder / "hf", config, folder / "ours.log") as ours:
            ours_started = time.perf_counter() - began
            began = time.perf_counter()
            with InstalledServer(folder / "hf", config, folder / "installed.log") as installed:
                installed_started = time.perf_counter() - began
                servers = {"mathmill": ours.client(), "installed": installed.client()}
                rates: dict[str, list[float]] = {key: [] for key in servers}
                for turn in range(args.rounds + 1):  # the first one warms up
                    for key, client in servers.items():
                        rate = tokens_per_second(client, args.sequences, args.new_tokens)
                        if turn:
                            rates[key].append(rate)
    print(f"start: mathmill {ours_started:.1f} s, installed {installed_started:.1f} s")
    for key, values in rates.items():
        print(f"{key}: {statistics.median(values):.0f} tokens/s (median of {', '.join(f'{v:.0f}' for v in values)})")
    ratios = [a / b for a, b in zip(rates["mathmill"], rates["installed"], strict=True)]
    print(f"ratio, median of the turns: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
