"""report.md: the report's tables and explanations as Markdown."""

from evals.report.tables import (
    GROUPINGS,
    Report,
    Table,
    answer_table,
    comparison_table,
    group_table,
    main_table,
    reliability_table,
    reward_table,
    rounds_table,
    stage_table,
    vote_table,
)


def markdown(report: Report) -> str:
    """The report as Markdown."""
    interval = f"{report['confidence']:.0%} bootstrap intervals over the problems in brackets"
    parts = [f"# Evaluation of {report['name']}", _about(report)]
    parts += [
        "## Results",
        f"Accuracy in per cent, one greedy answer a problem; {interval}.",
        _table(main_table(report)),
    ]
    if report["why_low"]:
        parts += ["### Why the public benchmarks are near zero here", report["why_low"]]
    if (comparison := comparison_table(report)).rows:
        note = "Percentage points over the same problems, with paired bootstrap intervals; ▲ ▼: zero excluded."
        parts += ["## What each step changed", note, _table(comparison)]
    parts += ["## Maj@K and Pass@K", "Majority vote of K samples, and the chance that one of K is right."]
    for name, title in report["benchmarks"].items():
        if votes := vote_table(report, name):
            parts += [f"### {title}", _table(votes)]
    for name, title in report["benchmarks"].items():
        for by, words in GROUPINGS.items():
            if groups := group_table(report, name, by):
                parts += [f"## {title} by {words}", _table(groups)]
    parts += ["## How the answers ended", _table(answer_table(report))]
    for heading, table in (("Reward model", reward_table(report)), ("Its reliability", reliability_table(report))):
        parts += [f"## {heading}", _table(table)] if table else []
    if rounds := rounds_table(report):
        parts += ["## Corpus rounds", _table(rounds)]
    parts += ["## The stages", _table(stage_table(report))]
    return "\n\n".join(parts) + "\n"


def _about(report: Report) -> str:
    sizes = ", ".join(f"{c} {n:,}" for c, n in report["checkpoints"].items())
    return f"Profile {report['profile']}, code {report['code_version']}. Parameters: {sizes}."


def _table(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    rule = "|" + "|".join([" --- "] + [" ---: "] * (len(table.header) - 1)) + "|"
    return "\n".join([line(table.header), rule, *map(line, table.rows)])
