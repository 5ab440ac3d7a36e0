"""The pages that benchmarks/corpus_*.py measure with, when none are named: real ones, a mix of the kinds there are."""

import argparse
from pathlib import Path

from corpus.archives import input_files
from corpus.config import ReadConfig
from corpus.crawl import extract_pages

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "warc"  # where a checkout may have archives beside it
EXAMPLES = ROOT / "examples"


def texts_and_rounds(doc: str | None, every: int) -> tuple[list[str], int]:
    """What the command line of a benchmark asks for: texts of pages, and how often to measure. `every` is a default."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", nargs="+", default=[], help="archives (default: ../shared/data/warc, else examples)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default: %(default)s)")
    parser.add_argument("--every", type=int, default=every, help="use every n-th page (default: %(default)s)")
    args = parser.parse_args()
    return texts_of(args.input, args.every), args.rounds


def texts_of(patterns: list[str], every: int) -> list[str]:
    """The texts of every n-th page; without patterns of the archives beside the checkout, else of the examples."""
    default = [str(DATA / "*.warc.gz")] if DATA.is_dir() else [str(EXAMPLES / "pages.warc.gz")]
    files = input_files(patterns or default)
    texts = [t for f in files for _, t in extract_pages(f, ReadConfig(), lambda reason: None)][::every]
    print(f"{len(texts)} pages, {sum(map(len, texts)) / 1e6:.1f} million characters", flush=True)
    return texts
