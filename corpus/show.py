"""A page's whole story: where it lay, what its text is, how it scored, and why it is or is not in the corpus.

    python -m corpus.show --run RUN 0f3c…        by the id that the ledger and the documents files use
    python -m corpus.show --run RUN https://…    by URL, in any spelling that means the same page

RUN is a run directory, of the pipeline or of `corpus.mine --output`, with a published corpus.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stage import UsageError, outcome, parser

Entry = dict[str, Any]


def stories(corpus: Path, name: str) -> Iterator[tuple[Entry, str]]:
    """(ledger entry, text) of every page with this id or URL: the one that was used and its duplicates."""
    from corpus.dedup import canonical_url

    key = canonical_url(name)
    with (
        open(corpus / "ledger.jsonl", encoding="utf-8") as ledger,
        open(corpus / "pages.jsonl", encoding="utf-8") as pages,
    ):
        for line, page in zip(ledger, pages, strict=True):
            entry = json.loads(line)
            if entry["id"] == name or canonical_url(entry["url"]) == key:
                yield entry, json.loads(page)["text"]


def describe(entry: Entry, text: str, manifest: Entry, characters: int) -> str:
    """One page, a line a fact, then its text."""
    lines = [
        ("id", entry["id"]),
        ("URL", entry["url"]),
        ("archive", f"{entry['file']}, offset {entry['offset']}"),
        ("crawl", entry["crawl"] or "not named by the archive's path"),
        ("language", entry["language"]),
    ]
    for number, score in enumerate(entry.get("scores", []), 1):
        cut = manifest["metrics"]["rounds"][number - 1]["cut"]
        lines.append(
            (
                f"round {number}",
                f"scored {score:.4f}, {'collected' if score >= cut else 'not collected'}, cut {cut:.4f}",
            )
        )
    lines.append(("fate", _fate(entry)))
    shown = text if characters == 0 else text[:characters]
    left = (
        f"\n… {len(text) - len(shown):,} characters more (--characters 0 shows all)" if len(shown) < len(text) else ""
    )
    return "\n".join(f"{head + ':':<10}{tail}" for head, tail in lines) + f"\n\n{shown}{left}"


def _fate(entry: Entry) -> str:
    fate = str(entry["fate"])
    if fate == "collected":
        return f"kept; collected first in round {entry['round']}"
    if fate == "contaminated":
        return f"dropped: contains problem {entry['problem']} of {entry['benchmark']}: “{entry['ngram']}”"
    if "duplicate_of" in entry:
        return f"dropped: {fate} of {entry['duplicate_of']['id']}, {entry['duplicate_of']['url']}"
    first = entry["round"]
    return "dropped: below the cut of the last round" + (f"; round {first} had collected it" if first else "")


def main(argv: list[str] | None = None) -> int:
    """0 shown, 2 no such page or no such run."""
    options = parser(__doc__)
    options.add_argument("--run", type=Path, required=True, help="run directory")
    options.add_argument("--characters", type=int, default=1000, help="of the text to show; 0: all (default: 1000)")
    options.add_argument("page", metavar="ID|URL")
    args = options.parse_args(argv)
    return outcome(lambda: _show(args.run / "corpus", args.page, args.characters))


def _show(corpus: Path, name: str, characters: int) -> int:
    if not (corpus / "manifest.json").is_file():
        raise UsageError(f"--run: no published corpus in {corpus}; `python -m corpus.mine` makes one")
    manifest = json.loads((corpus / "manifest.json").read_text())
    try:
        found = [describe(entry, text, manifest, characters) for entry, text in stories(corpus, name)]
    except (KeyError, ValueError, FileNotFoundError) as error:
        raise UsageError(f"--run: {corpus} is not as this version publishes it ({error}); mine it again") from None
    if not found:
        raise UsageError(f"{name}: {corpus / 'ledger.jsonl'} has no such page; records without text are only counted")
    print(f"\n\n{'-' * 80}\n".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
