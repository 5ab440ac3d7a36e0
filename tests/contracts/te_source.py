"""The Python source of the pinned Transformer Engine, which installs on GPU hosts only: read from its wheel.

`pip download` of the `transformer-engine` wheel (0.7 MB, pure Python) works anywhere; nothing is installed.
"""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

PIN = re.compile(r"transformer-engine(?:\[\w+\])?==(\S+)")


class TransformerEngineSource:
    """The modules of the package, by name, as files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, module: str) -> Path:
        """The file of `transformer_engine.pytorch`, say."""
        base = self.folder.joinpath(*module.split("."))
        return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")

    def names(self, module: str) -> set[str]:
        """What can be imported from a module: all it defines, imports or has as a submodule."""
        found = {p.stem for p in self.path(module).parent.iterdir()} if self.path(module).stem == "__init__" else set()
        for node in ast.walk(ast.parse(self.path(module).read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Assign):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        return found

    def parameters(self, module: str, class_name: str, method: str = "__init__") -> set[str]:
        """The parameters of a class's method."""
        tree = ast.parse(self.path(module).read_text())
        (cls,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name)
        (found,) = (n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == method)
        return {a.arg for a in (*found.args.args, *found.args.kwonlyargs)} - {"self"}

    def load(self, module: str) -> ModuleType:
        """Import one self-contained module from its file."""
        name = module.replace(".", "_")
        spec = importlib.util.spec_from_file_location(name, self.path(module))
        assert spec and spec.loader
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded  # dataclasses look their module up
        spec.loader.exec_module(loaded)
        return loaded


def pinned_version(repository: Path) -> str:
    """The version in pyproject.toml's extra `gpu`."""
    gpu = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]["gpu"]
    (version,) = (m.group(1) for line in gpu if (m := PIN.match(line)))
    return version


@pytest.fixture(scope="session")
def te_source(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> TransformerEngineSource:
    folder = tmp_path_factory.mktemp("transformer-engine")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={folder}"]
    done = subprocess.run(
        [*pip, f"transformer-engine=={pinned_version(repository)}"], capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        pytest.skip(f"needs a package index to read Transformer Engine's source: {done.stderr.strip()[-200:]}")
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    return TransformerEngineSource(folder)
