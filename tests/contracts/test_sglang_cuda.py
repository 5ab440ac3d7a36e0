"""The SGLang server's command line for a GPU, read by SGLang's own argument parser."""

import argparse
from pathlib import Path

import pytest

from evals.server import SGLangServer
from evals.server_config import ServerConfig


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser


def test_sglang_knows_every_option_of_the_gpu_command_line(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    config = ServerConfig(
        device="cuda",
        dtype="bfloat16",
        tp_size=2,
        dp_size=4,
        mem_fraction_static=0.8,
        max_total_tokens=1000,
        max_running_requests=10,
        context_length=2048,
        extra_args=("--enable-metrics",),
    )
    command = SGLangServer("model", config, tmp_path / "log").command(nccl_port=12345)
    assert command[1:3] == ["-m", "sglang.launch_server"]
    args = parser.parse_args(command[3:])
    seen = (args.dtype, args.tensor_parallel_size, args.data_parallel_size, args.mem_fraction_static, args.nccl_port)
    assert seen == ("bfloat16", 2, 4, 0.8, 12345)
    assert (args.max_total_tokens, args.max_running_requests, args.context_length) == (1000, 10, 2048)
    assert args.enable_metrics
