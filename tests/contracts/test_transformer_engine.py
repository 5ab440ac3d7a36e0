"""What runs on GPUs only (Transformer Engine layers, FP8) against the source of the pinned packages.

Three parties have to agree: pretrain/ with megatron-core, which is installed, and megatron-core with Transformer
Engine, which installs on GPU hosts only. `make gpu-check` runs the same code on a GPU.
"""

import ast
import dataclasses
import inspect
from importlib.metadata import requires
from pathlib import Path
from typing import get_args

import megatron.core
import pytest
import torch
from packaging.requirements import Requirement

from pretrain import device
from pretrain.config import PrecisionConfig
from pretrain.precision import transformer_config_fields
from tests.contracts.te_source import TransformerEngineSource, pinned_version

MEGATRON = Path(megatron.core.__file__).parent
RECIPES = get_args(PrecisionConfig.model_fields["fp8_recipe"].annotation)
FORMATS = ("hybrid", "e4m3")

# megatron's layer of the TE spec -> the TE class it is built on, and the TE module that defines it
LAYERS = {
    "TELinear": ("Linear", "transformer_engine.pytorch.module.linear"),
    "TELayerNormColumnParallelLinear": ("LayerNormLinear", "transformer_engine.pytorch.module.layernorm_linear"),
    "TEDotProductAttention": (
        "DotProductAttention",
        "transformer_engine.pytorch.attention.dot_product_attention.dot_product_attention",
    ),
}


def tree_of(module: str) -> ast.Module:
    return ast.parse((MEGATRON / module).read_text())


def keywords_of_super_init(tree: ast.Module, class_name: str) -> set[str]:
    """The keyword arguments, spelled out, that a class's __init__ gives its base's."""
    (cls,) = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == class_name)
    (init,) = (n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    named: set[str] = set()
    for node in ast.walk(init):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__":
            named |= {k.arg for k in node.keywords if k.arg}
    return named


def test_the_pinned_version_is_one_that_megatron_asks_for(repository: Path) -> None:
    wanted = [Requirement(line) for line in requires("megatron-core") or []]
    (te,) = {str(r.specifier): r for r in wanted if r.name == "transformer-engine"}.values()
    assert te.specifier.contains(pinned_version(repository))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("fp8", FORMATS)
def test_megatron_accepts_every_fp8_setting(fp8: str, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from megatron.core.transformer.transformer_config import TransformerConfig

    monkeypatch.setattr(device, "on_gpu", lambda: True)
    precision = PrecisionConfig.model_validate({"fp8": fp8, "fp8_recipe": recipe, "fp8_amax_history_len": 16})
    config = TransformerConfig(
        num_layers=2, hidden_size=64, num_attention_heads=4, **transformer_config_fields(precision)
    )
    assert (config.fp8, config.fp8_recipe, config.fp8_amax_history_len) == (fp8, recipe, 16)


def test_every_recipe_leads_to_one_that_transformer_engine_has(te_source: TransformerEngineSource) -> None:
    """megatron's get_fp8_recipe, read: for each of our recipes the class it makes, made with the same arguments."""
    recipe = te_source.load("transformer_engine.common.recipe")
    function = next(
        n for n in ast.walk(tree_of("fp8_utils.py")) if isinstance(n, ast.FunctionDef) and n.name == "get_fp8_recipe"
    )
    made: dict[str, ast.Call] = {}
    for branch in (n for n in ast.walk(function) if isinstance(n, ast.If)):
        for name in RECIPES:
            if f"config.fp8_recipe == Fp8Recipe.{name}" in ast.unparse(branch.test):
                assignment = branch.body[0]
                assert isinstance(assignment, ast.Assign) and isinstance(assignment.value, ast.Call)
                made[name] = assignment.value
    assert set(made) == set(RECIPES)
    given = keywords_of_super_init(tree_of("extensions/transformer_engine.py"), "TEDelayedScaling")
    # TE dropped override_linear_precision before 2.9; its pydantic dataclass takes and ignores it
    delayed = dict.fromkeys(given, False) | {"margin": 0, "amax_history_len": 16, "amax_compute_algo": "max"}
    for fp8 in FORMATS:
        fp8_format = getattr(recipe.Format, fp8.upper())
        for name in set(RECIPES) - {"delayed"}:
            cls = getattr(recipe, ast.unparse(made[name].func).removeprefix("transformer_engine.common.recipe."))
            optional = {k.arg: False for k in made[name].keywords if k.arg != "fp8_format"}
            assert cls(fp8_format=fp8_format, **optional).fp8_format is fp8_format
        assert ast.unparse(made["delayed"].func) == "TEDelayedScaling"
        assert recipe.DelayedScaling(**delayed | {"fp8_format": fp8_format}).amax_history_len == 16


@pytest.mark.parametrize("layer", LAYERS)
def test_transformer_engine_has_what_the_layer_spec_is_built_on(layer: str, te_source: TransformerEngineSource) -> None:
    name, module = LAYERS[layer]
    assert name in te_source.names("transformer_engine.pytorch")
    given = keywords_of_super_init(tree_of("extensions/transformer_engine.py"), layer)
    assert given and given <= te_source.parameters(module, name)


def test_transformer_engines_attention_takes_the_boundaries_of_packed_documents(
    te_source: TransformerEngineSource,
) -> None:
    """megatron passes on every field but those of context parallelism, which it removes."""
    from pretrain.engine import packed_sequence_params

    params = packed_sequence_params(torch.tensor([[0, 0, 1, -1], [0, 1, 1, 1]]))
    assert params.cu_seqlens_q.tolist() == [0, 2, 3, 4, 5, 8]
    assert (params.cu_seqlens_q.dtype, params.max_seqlen_q, params.qkv_format) == (torch.int32, 3, "thd")
    passed = {field.name for field in dataclasses.fields(params)} - {"cp_group", "local_cp_size"}
    name, module = LAYERS["TEDotProductAttention"]
    assert passed <= te_source.parameters(module, name, "forward")


def test_megatrons_unconditional_imports_exist_in_transformer_engine(te_source: TransformerEngineSource) -> None:
    missing = []
    for module in ("extensions/transformer_engine.py", "fp8_utils.py", "optimizer/__init__.py"):
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ImportFrom) and (node.module or "") in (
                "transformer_engine.pytorch.fp8",
                "transformer_engine.pytorch.distributed",
                "transformer_engine.pytorch.optimizers",
                "transformer_engine.pytorch.float8_tensor",
            ):
                known = te_source.names(node.module or "")
                missing += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in known]
    assert not missing


def test_our_calls_fit_megatrons_layer_spec(repository: Path) -> None:
    """The one megatron function that pretrain/ calls on GPUs only."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec as spec

    calls = [
        node
        for path in (repository / "pretrain").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("get_gpt_layer_with_transformer_engine_spec")
    ]
    assert calls
    for call in calls:
        inspect.signature(spec).bind(*call.args, **{k.arg: k.value for k in call.keywords if k.arg})
