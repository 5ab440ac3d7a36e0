"""The corpus stage: mine mathematical text from web archives, mix it with the other sources, write token shards.

    python -m corpus.mine --run-dir RUN                                          in a run directory of the pipeline
    python -m corpus.mine --input 'crawl/*.warc.gz' --output DIR --profile tiny  on its own; DIR becomes a run directory

It reads the profile's sections `corpus` and `tokenizer` and follows the paper's section 2.1:

  1. read the pages, keep their mathematics as TeX, remove duplicates
  2. rounds: train fastText, score and rank all pages, collect the best, discover mathematical domains, enlarge the seed
  3. remove what the benchmarks contain, tokenise the corpus and the other sources, write the mixture

Published in RUN/corpus: mixture.json and shards/ for pretraining; pages.jsonl (the text of every page read),
ledger.jsonl (why each was kept or dropped), contaminated.jsonl, rounds/N/ (classifier.bin, domains.yaml).
The figures of the rounds are in manifest.json under metrics.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stage import EXIT_USAGE, Stage, UsageError, atomic_write, stage_main
from stage.context import remove

if TYPE_CHECKING:
    from corpus.crawl import Crawl
    from corpus.rounds import Mined


def body(stage: Stage) -> None:
    """One run of the stage, from the start: what a killed attempt left behind is thrown away."""
    from corpus.config import CorpusConfig
    from corpus.crawl import read_crawl
    from corpus.decontaminate import Decontaminator, load_benchmarks
    from corpus.mixture import write_mixture
    from corpus.pages import PageStore
    from corpus.rounds import Miner
    from corpus.seed import read_seed
    from corpus.texts import local_files
    from corpus.tokenize import Tokenizer

    for leftover in stage.work.iterdir():
        if leftover.name != "fingerprint":
            remove(leftover)
    config = stage.section("corpus", CorpusConfig)
    tokenizer = Tokenizer(stage.profile["tokenizer"])
    benchmarks = config.decontamination.benchmarks
    for path in [*(s.path for s in config.sources if s.path is not None), *(b.path for b in benchmarks)]:
        for file in local_files(path):
            stage.read_file(file)
    check = Decontaminator(load_benchmarks(benchmarks), config.decontamination)
    seed = read_seed(stage, config)
    with PageStore(stage.work / "pages.jsonl") as store:
        crawl, duplicates = read_crawl(stage, config, store)
        mined = Miner(stage, config, seed, crawl, tokenizer).run()
        write_ledger(stage, crawl, duplicates, mined)
        stage.drop("below the cut", len(crawl) - len(mined.collected))
        documents = ((crawl.page(p).id, crawl.page(p).text) for p in mined.collected)
        write_mixture(stage, config, documents, check, tokenizer)


def write_ledger(stage: Stage, crawl: "Crawl", duplicates: dict[int, str], mined: "Mined") -> None:
    """ledger.jsonl: for each page of pages.jsonl where it came from, what it scored and what became of it."""

    def lines() -> Iterator[str]:
        collected, position_of = set(mined.collected), {n: p for p, n in enumerate(crawl.numbers)}
        for number in range(len(crawl.store)):
            page, position = crawl.store[number], position_of.get(number)
            fate = duplicates.get(number) or ("collected" if position in collected else "below the cut")
            scores = [] if position is None else [round(float(s[position]), 6) for s in mined.scores]
            entry = {"id": page.id, "url": page.url, "file": page.file, "offset": page.offset}
            yield json.dumps(entry | {"fate": fate, "scores": scores}, ensure_ascii=False) + "\n"

    atomic_write(stage.work / "ledger.jsonl", "".join(lines()))


def main(argv: list[str] | None = None) -> int:
    """0 published, 2 bad input (one line says which), 75 preempted."""
    parser = argparse.ArgumentParser(
        prog="python -m corpus.mine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run-dir", type=Path, help="run directory holding profile.yaml and plan.json")
    parser.add_argument("--input", nargs="+", action="extend", metavar="FILE", help="archives: paths, globs, URLs")
    parser.add_argument("--output", type=Path, metavar="DIR", help="directory to make a run directory of")
    parser.add_argument("--profile", default="tiny", help="with --input: a profile's name or file (default: tiny)")
    args = parser.parse_args(argv)
    if (args.run_dir is None) == (args.input is None) or (args.input is None) != (args.output is None):
        parser.error("give either --run-dir, or --input and --output")
    try:
        if args.input:
            from corpus.standalone import make_run

            make_run(args.input, args.output, args.profile)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    run_dir = args.run_dir or args.output
    code = stage_main("corpus", body, ["--run-dir", str(run_dir)])
    if code == 0:
        print(f"corpus: published in {run_dir / 'corpus'}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
