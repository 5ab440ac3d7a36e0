"""KaTeX (MIT, see LICENSE beside this file) as two texts to inline in a page: its script, and its style with the fonts.

The files are those of the npm package, as `python -m evals.report.katex.refresh` last wrote them.
"""

from pathlib import Path

FOLDER = Path(__file__).parent


def script() -> str:
    """katex.min.js; it defines `katex`."""
    return (FOLDER / "katex.min.js").read_text(encoding="utf-8")


def style() -> str:
    """katex.min.css with every font as a data: address, so that a page with it loads nothing."""
    return (FOLDER / "katex.inline.css").read_text(encoding="utf-8")
