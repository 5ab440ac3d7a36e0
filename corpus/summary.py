"""What the stage says on the terminal when it has counted and mined: plain tables."""

from collections.abc import Iterable, Mapping
from typing import Any

Rows = Iterable[tuple[str, ...]]


def rounds_table(rounds: list[dict[str, Any]]) -> str:
    """The rounds, one a line."""
    head = (
        "round",
        "pages",
        "tokens",
        "cut",
        "collected before",
        "new domains",
        "seed pages added",
        "known pages found",
    )
    rows = [
        (
            str(r["round"]),
            f"{r['pages']:,}",
            f"{r['tokens']:,}",
            f"{r['cut']:.3f}",
            f"{r['overlap']:.0%}",
            str(len(r["new_domains"])),
            str(r["seed_pages_added"]),
            "-" if r["recall"] is None else f"{r['recall']:.0%}",
        )
        for r in rounds
    ]
    return table([head, *rows])


def counts_line(counts: Mapping[str, Any]) -> str:
    """`134 records: 40 pages, 90 not HTML, 4 broken archive`: the reasons from the most frequent on."""
    reasons = sorted(counts["dropped"].items(), key=lambda item: (-item[1], item[0]))
    kept = counts["in"] - sum(counts["dropped"].values())
    return f"{counts['in']} records: {kept} pages" + "".join(f", {n} {reason}" for reason, n in reasons)


def table(rows: Rows) -> str:
    """Columns as wide as their widest cell; the first row is the head."""
    rows = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
