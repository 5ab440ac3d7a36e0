"""A run directory for the corpus stage alone: `python -m corpus.mine --input … --output DIR --profile NAME`.

Comes in: archives and a profile, of which only `seed`, `tokenizer` and `corpus` are looked at. Goes out: DIR with the
profile.yaml and plan.json that `stage` asks for, so that the stage works, resumes and publishes (in DIR/corpus) there
just as it does in a run of the pipeline.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from stage import UsageError, atomic_write

PACKAGE = Path(__file__).parent
PROFILES = PACKAGE.parent / "pipeline" / "profiles"


def make_run(inputs: list[str], output: Path, profile: str) -> None:
    """Write profile.yaml and plan.json into `output`; a change of anything they depend on makes a new fingerprint."""
    from corpus.archives import input_files

    _refuse_other_runs(output)
    raw = _sections(_find(profile))
    raw["corpus"]["inputs"] = inputs
    _validate(raw["corpus"], profile)
    code = _code_version()
    files = [_identity(f) for f in input_files(inputs)]
    ingredients = json.dumps([raw, files, code], sort_keys=True, ensure_ascii=False)
    plan = {"fingerprint": hashlib.sha256(ingredients.encode()).hexdigest(), "inputs": [], "files": []}
    output.mkdir(parents=True, exist_ok=True)
    atomic_write(output / "profile.yaml", yaml.safe_dump(raw, sort_keys=False, allow_unicode=True))
    atomic_write(output / "plan.json", json.dumps({"stages": {"corpus": plan}, "code_version": code}, indent=2) + "\n")


def _refuse_other_runs(output: Path) -> None:
    plan = output / "plan.json"
    if plan.is_file() and set(json.loads(plan.read_text())["stages"]) != {"corpus"}:
        raise UsageError(f"--output: {output} is a run of the whole recipe; mine in it with --run-dir {output}")


def _find(profile: str) -> Path:
    named = profile.endswith((".yaml", ".yml")) or "/" in profile
    path = Path(profile) if named else PROFILES / f"{profile}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in PROFILES.glob("*.yaml")))
        raise UsageError(f"--profile: no profile '{profile}'; there are {known}, or give the path of a .yaml file")
    return path


def _sections(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("corpus"), dict) or "tokenizer" not in raw:
        raise UsageError(f"{path}: expected a mapping with the keys corpus and tokenizer")
    return {"name": raw.get("name", path.stem), "seed": 1234} | {
        key: raw[key] for key in ("seed", "tokenizer", "corpus") if key in raw
    }


def _validate(section: dict[str, Any], profile: str) -> None:
    from pydantic import ValidationError

    from corpus.config import CorpusConfig

    try:
        CorpusConfig.model_validate(section)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in ("corpus", *first["loc"]))
        raise UsageError(f"--profile {profile}: {key}: {first['msg'].removeprefix('Value error, ')}") from None


def _identity(file: str) -> list[Any]:
    if "://" in file:
        return [file]
    status = Path(file).stat()
    return [file, status.st_size, status.st_mtime_ns]


def _code_version() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
