"""The pages of the training stages against the code: the settings and files that they name exist."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from pretrain.config import PretrainConfig
from rl.config import GrpoConfig, RewardConfig
from sft.config import SftConfig

PAGES: dict[str, type[BaseModel]] = {
    "pretrain": PretrainConfig,
    "sft": SftConfig,
    "reward": RewardConfig,
    "grpo": GrpoConfig,
}
each_page = pytest.mark.parametrize("page", PAGES)


@pytest.fixture
def text(repository: Path, page: str) -> str:
    return (repository / "docs" / f"{page}.md").read_text()


def section(text: str, title: str) -> str:
    """The text under a heading that begins with `title`."""
    return re.split(r"^## ", text.partition(f"\n## {title}")[2], maxsplit=1, flags=re.MULTILINE)[0]


def has(model: type[BaseModel], key: str) -> bool:
    """Whether a dotted key (`optimizer.lr`, `parallel.*`) names a field of the section."""
    name, _, rest = key.partition(".")
    if name == "*":
        return True
    if name not in model.model_fields:
        return False
    inner = model.model_fields[name].annotation
    return not rest or (isinstance(inner, type) and issubclass(inner, BaseModel) and has(inner, rest))


@each_page
def test_every_setting_in_the_table_is_one_of_the_profile(page: str, text: str) -> None:
    rows = re.findall(r"^\| (`.*?) \|", section(text, "Settings"), re.MULTILINE)
    model, unknown = PAGES[page], []
    for row in rows:
        prefix = ""
        for key in re.findall(r"`([\w.*]+)`", row):  # `optimizer.lr`, `lr_schedule`: the section is named once
            if not has(model, key) and not has(model, prefix + key):
                unknown.append(key)
            prefix = key.rpartition(".")[0] + "." if "." in key else prefix
    assert len(rows) >= 5 and not unknown


@each_page
def test_every_file_of_the_code_exists(page: str, text: str, repository: Path) -> None:
    folder, missing = Path(), []
    for name in re.findall(r"`([\w/.]+(?:\.py|/))`", section(text, "Code")):
        folder = Path(name).parent if "/" in name.rstrip("/") else folder
        if not (repository / name).exists() and not (repository / folder / name).exists():
            missing.append(name)
    assert not missing
