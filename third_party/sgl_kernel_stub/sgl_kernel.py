"""Stand-in for the compiled `sgl_kernel` on hosts where it has no build.

SGLang imports names from it while starting and, on a CPU with `--attention-backend torch_native
--sampling-backend pytorch`, calls none of them. Every name exists here; calling one raises, so that a configuration
that needs the kernels is loud. One module answers for the package's submodules too.
"""

import sys

SUBMODULES = ("elementwise", "flash_attn", "flash_mla", "kvcacheio", "quantization", "speculative", "top_k")
SUBMODULES += ("sparse_flash_attn",)

_this = sys.modules[__name__]
for _name in SUBMODULES:
    sys.modules[f"{__name__}.{_name}"] = _this
    setattr(_this, _name, _this)


def __getattr__(name):
    if name.startswith("__"):  # __path__, __all__ ...: asked by the import system, which takes "no" for an answer
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} needs the compiled sgl-kernel package, which this host lacks")

    missing.__name__ = name
    return missing
