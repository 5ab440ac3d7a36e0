"""Starts the SGLang server on GPUs such that it can take broadcast weights: `python -m evals.sglang_nccl`, with
sglang.launch_server's options.

SGLang 0.5.5 decides by comparing version *strings* how torch calls an argument of a process group, so that from
torch 2.10 on ("2.10" < "2.6") it cannot build the group that weights are broadcast in. The model processes are
spawned and import this module again; so the correction is made at import.
"""

from typing import Any

from torch.distributed import distributed_c10d


def accept_old_argument_name() -> None:
    """Let torch's process-group helper take `pg_options`, its name before torch 2.6, for `backend_options`."""
    helper = distributed_c10d._new_process_group_helper

    def renaming(*args: Any, **options: Any) -> Any:
        if "pg_options" in options:
            options["backend_options"] = options.pop("pg_options")
        return helper(*args, **options)

    distributed_c10d._new_process_group_helper = renaming


accept_old_argument_name()

if __name__ == "__main__":
    import runpy

    runpy.run_module("sglang.launch_server", run_name="__main__")
