"""Pages in one file: style, scripts and fonts inlined, and a policy under which a browser runs nothing else.

What a model wrote reaches a page only as JSON inside an inert element; the scripts put it into the document as text.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evals.report import katex

HERE = Path(__file__).parent


def render(
    template: Path, styles: Sequence[Path], scripts: Sequence[Path], connect: str = "'none'", **values: Any
) -> str:
    """The page of a Jinja template, with KaTeX, the common style, and these styles and scripts in it.

    `connect` is where its scripts may send requests, as the Content-Security-Policy says it.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = [katex.script(), *(p.read_text(encoding="utf-8") for p in (HERE / "mathematics.js", *scripts))]
    style = [katex.style(), *(p.read_text(encoding="utf-8") for p in (HERE / "theme.css", *styles))]
    return environment.get_template(template.name).render(
        policy=policy(code, connect),
        style=Markup("\n".join(style)),
        scripts=[Markup(c) for c in code],
        **values,
    )


def policy(scripts: Sequence[str], connect: str) -> str:
    """A Content-Security-Policy that allows these very scripts, inline styles and embedded fonts, and nothing else."""
    for code in scripts:
        if "</script" in code or "\r" in code:
            raise ValueError("a script that is to stand in a page holds </script or a carriage return")
    hashes = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in scripts)
    allowed = " ".join(f"'sha256-{h}'" for h in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; font-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def embed(data: Any) -> Markup:
    """JSON that may stand inside a <script>: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
