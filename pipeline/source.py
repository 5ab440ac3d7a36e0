"""The version of the code that a stage's result depends on.

In: the stage's module name and the folder that holds the packages. Out: a sha256 over the source of that module and of
everything in this repository that it reaches: modules by import statements, at any depth and inside functions too,
modules named in a string (as in `python -m evals.sglang_cpu`), and files beside a module whose name it has in a string
(a report's template). So editing evals/ does not rerun pretraining.
"""

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
_DOTTED = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)+")


def code_version(module: str, root: Path = REPOSITORY) -> str:
    """Hex sha256 of the source files that `module` is made of, by path and content."""
    digest = hashlib.sha256()
    for path in source_files(module, root):
        digest.update(f"{path.relative_to(root)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def source_files(module: str, root: Path = REPOSITORY) -> list[Path]:
    """The files of `module` and of all modules under `root` that it reaches, sorted."""
    found: set[Path] = set()
    todo = _module_files(module, root)
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo.extend(_mentions(path, root) if path.suffix == ".py" else [])
    return sorted(found)


def _module_files(module: str, root: Path) -> list[Path]:
    """The file of a module and the __init__.py of each package above it; empty if it is not under `root`."""
    parts = module.split(".")
    base = root.joinpath(*parts)
    own = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
    above = [root.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts))]
    return [p for p in above if p.is_file()] + ([own] if own else [])


@cache
def _mentions(path: Path, root: Path) -> list[Path]:
    """The files under `root` that a source file imports or names."""
    package = path.parent.relative_to(root).parts
    names: list[str] = []
    beside: list[Path] = []
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            names.append(node.value)
            beside.append(path.parent / node.value)
    return [file for name in names for file in _module_files(name, root)] + [p for p in beside if p.is_file()]
