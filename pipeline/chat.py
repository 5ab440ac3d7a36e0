"""Talk to a checkpoint of a run: in the terminal, for one answer, or on a page that this machine serves.

    python -m pipeline.chat --run runs/tiny                            # the last checkpoint, in the terminal
    python -m pipeline.chat --run runs/tiny --stage sft --prompt "Tom has 3 pens. He buys 4. How many has he?"
    python -m pipeline.chat --run runs/tiny --web

It starts an SGLang server for the checkpoint, as the evaluation does, and stops it at the end.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.run_dir import RunDir
from stage import EXIT_USAGE, UsageError

if TYPE_CHECKING:
    from evals.server_config import ServerConfig

CHECKPOINTS = ("grpo", "sft", "pretrain")  # the furthest trained first
ON_CPU = {"device": "cpu", "dtype": "float32", "tp_size": 1, "dp_size": 1, "weight_sync": "shared_memory"}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    args = _parser().parse_args(argv)
    try:
        return _chat(args)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    intro, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.chat",
        description=intro,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", type=Path, required=True, metavar="RUN_DIR", help="a run directory")
    parser.add_argument("--stage", choices=CHECKPOINTS, help="whose checkpoint (the furthest trained that there is)")
    parser.add_argument("--prompt", metavar="TEXT", help="print the answer to this and end")
    parser.add_argument("--web", action="store_true", help="serve a page on 127.0.0.1")
    parser.add_argument("--port", type=int, default=8010, help="of the page; 0: any free one (%(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=512, help="of one answer (%(default)s)")
    parser.add_argument(
        "--temperature", type=float, default=0.0, help="0: greedy, as accuracy is measured (%(default)s)"
    )
    parser.add_argument("--tools", action="store_true", help="run the model's programs in the sandbox")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="where to run the model (as the run did)")
    return parser


def _chat(args: argparse.Namespace) -> int:
    if args.prompt is not None and args.web:
        raise UsageError("--prompt and --web exclude each other")
    if args.max_new_tokens < 1 or args.temperature < 0:
        raise UsageError("--max-new-tokens must be at least 1 and --temperature at least 0")
    run = RunDir(args.run)
    stage = args.stage or furthest(run)
    if run.manifest(stage) is None:
        raise UsageError(f"--stage {stage}: not published in {run.path}; `python -m pipeline.status {run.path}` tells")
    config = server_config(run, args.device)
    from evals.chat import open_chat
    from evals.chat.terminal import ask_once, talk
    from evals.client import RequestRefused, ServerDied
    from evals.server import ServerStartFailed

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the server is stopped, not left
    log = run.path / "logs" / "chat-server.log"
    print(f"starting the server for {stage} of {run.path} (log: {log})", file=sys.stderr, flush=True)
    checkpoint, title = run.path / stage / "hf", f"{run.path.resolve().name}, {stage}"
    try:
        base = stage == "pretrain"
        with open_chat(checkpoint, config, log, args.max_new_tokens, args.temperature, base, args.tools) as chat:
            if args.web:
                _serve(chat, title, args.port)
            elif args.prompt is not None:
                ask_once(chat, args.prompt)
            else:
                talk(chat, title)
    except (RequestRefused, ServerDied, ServerStartFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def furthest(run: RunDir) -> str:
    """The last stage of the recipe that has published a checkpoint here."""
    for stage in CHECKPOINTS:
        if run.manifest(stage) is not None:
            return stage
    raise UsageError(
        f"{run.path}: no published checkpoint ({', '.join(CHECKPOINTS)}); `python -m pipeline.run` makes one"
    )


def server_config(run: RunDir, device: str | None) -> ServerConfig:
    """The run's own server settings; on a CPU where it ran on GPUs, those that a CPU can serve."""
    import yaml

    from evals.server_config import ServerConfig

    file = run.path / "profile.yaml"
    try:
        section: dict[str, Any] = yaml.safe_load(file.read_text())["server"]
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: no `server` section ({type(error).__name__}); give a run directory") from None
    if device is not None and device != section["device"]:
        section = {**section, **(ON_CPU if device == "cpu" else {"device": device}), "extra_args": ()}
    return ServerConfig.model_validate(section)


def _serve(chat: Any, title: str, port: int) -> None:
    from evals.chat.web import server

    with server(chat, title, port) as http:
        print(f"http://127.0.0.1:{http.server_address[1]}/   (Ctrl-C ends)", flush=True)
        try:
            http.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    sys.exit(main())
