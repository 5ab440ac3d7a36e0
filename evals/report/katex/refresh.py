"""Writes the KaTeX files of this folder anew from the npm package of VERSION. Needs npm and a network.

    python -m evals.report.katex.refresh

To move to another KaTeX, change VERSION, run this, look at a report, and run tests/evals/test_page.py.
"""

import base64
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.19.1"
FOLDER = Path(__file__).parent
FONT = re.compile(r"src:url\(fonts/([\w-]+\.woff2)\) format\(\"woff2\"\)(?:,url\([^)]*\) format\(\"\w+\"\))*")


def inline_fonts(css: str, fonts: Path) -> str:
    """`css` with each font's woff2 file in it; the woff and ttf forms of old browsers are left out.

    Raises ValueError when the style still names a file, which means that KaTeX has changed how it writes them.
    """

    def data(match: "re.Match[str]") -> str:
        encoded = base64.b64encode((fonts / match[1]).read_bytes()).decode()
        return f'src:url(data:font/woff2;base64,{encoded}) format("woff2")'

    inlined = FONT.sub(data, css)
    if left := re.search(r"url\((?!data:)[^)]*\)", inlined):
        raise ValueError(f"katex.min.css: {left[0]} is not one of the fonts that {FONT.pattern} finds")
    return inlined


def main() -> int:
    """Download, inline, write."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["npm", "pack", "--silent", f"katex@{VERSION}"], cwd=name, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(name).glob("*.tgz"))) as archive:
            archive.extractall(name, filter="data")
        package = Path(name) / "package"
        css = (package / "dist" / "katex.min.css").read_text(encoding="utf-8")
        (FOLDER / "katex.inline.css").write_text(inline_fonts(css, package / "dist" / "fonts"), encoding="utf-8")
        for source, target in (("dist/katex.min.js", "katex.min.js"), ("LICENSE", "LICENSE")):
            (FOLDER / target).write_bytes((package / source).read_bytes())
    print(f"KaTeX {VERSION} written to {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
