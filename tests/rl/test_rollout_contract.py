"""What the weight transfers say to SGLang, against the source of the SGLang that is installed."""

import ast
import dataclasses
import inspect
import os
from pathlib import Path

os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")

from sglang.srt.managers import io_struct
from sglang.srt.utils import common

import rl.rollout.nccl_sync as nccl_sync

SOURCE = ast.parse(inspect.getsource(nccl_sync))


def dictionary_with(key: str) -> set[str]:
    """The keys of the request body in nccl_sync.py that holds `key`."""
    bodies = [
        {k.value for k in node.keys if isinstance(k, ast.Constant)}
        for node in ast.walk(SOURCE)
        if isinstance(node, ast.Dict)
    ]
    return next(body for body in bodies if key in body)  # type: ignore[return-value]


def fields(request: type) -> tuple[set[str], set[str]]:
    """All fields of a request, and those without a default."""
    known = dataclasses.fields(request)
    nothing = dataclasses.MISSING
    required = {f.name for f in known if f.default is nothing and f.default_factory is nothing}
    return {f.name for f in known}, required - {f.name for f in dataclasses.fields(io_struct.BaseReq)}


def test_the_group_request_has_sglangs_fields() -> None:
    known, required = fields(io_struct.InitWeightsUpdateGroupReqInput)
    assert required <= dictionary_with("rank_offset") <= known


def test_the_broadcast_request_has_sglangs_fields() -> None:
    known, required = fields(io_struct.UpdateWeightsFromDistributedReqInput)
    assert required <= dictionary_with("shapes") <= known


def test_the_disk_request_has_sglangs_fields() -> None:
    assert {"model_path", "weight_version"} <= fields(io_struct.UpdateWeightFromDiskReqInput)[0]


def test_both_sides_build_the_group_with_the_same_function() -> None:
    call = next(
        node
        for node in ast.walk(SOURCE)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "init_custom_process_group"
    )
    ours = {keyword.arg for keyword in call.keywords}
    assert ours <= set(inspect.signature(common.init_custom_process_group).parameters)
    runner = Path(inspect.getfile(common)).parents[1] / "model_executor" / "model_runner.py"
    assert "self._model_update_group[group_name] = init_custom_process_group(" in runner.read_text()


def test_the_kernel_stand_in_answers_for_every_submodule_that_sglang_names() -> None:
    """Except scalar_type, whose absence SGLang handles itself."""
    import re

    import sgl_kernel

    named = set()
    for path in Path(inspect.getfile(common)).parents[1].rglob("*.py"):
        named |= set(re.findall(r"from sgl_kernel\.(\w+) import", path.read_text()))
    if hasattr(sgl_kernel, "SUBMODULES"):  # on a GPU host the real package is installed
        assert named - {"scalar_type"} == set(sgl_kernel.SUBMODULES)
