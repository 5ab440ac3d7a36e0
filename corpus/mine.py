"""The corpus stage: mine mathematical text from web archives, mix it with the other sources, write token shards.

    python -m corpus.mine --run-dir RUN                                          in a run directory of the pipeline
    python -m corpus.mine --input 'crawl/*.warc.gz' --output DIR --profile tiny  on its own; DIR becomes a run directory
    python -m corpus.mine --run-dir RUN --share 3/100                            one task of an array: read, no more

It reads the profile's sections `corpus` and `tokenizer` and follows the paper's section 2.1:

  1. read the pages, keep their mathematics as TeX, remove duplicates
  2. rounds: train fastText, score and rank all pages, collect the best, discover mathematical domains, enlarge the seed
  3. remove what the benchmarks contain, tokenise the corpus and the other sources, write the mixture

Published in RUN/corpus: mixture.json and shards/ for pretraining; pages.jsonl (the text of every page read),
ledger.jsonl (why each was kept or dropped; `python -m corpus.show` prints it), contaminated.jsonl, rounds/N/
(classifier.bin, domains.yaml).
The figures of the rounds are in manifest.json under metrics.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from stage import Stage, outcome, parser, run_stage
from stage.context import remove

KEPT = ("fingerprint", "read")  # of a killed attempt


def body(stage: Stage, workers: int = 1) -> None:
    """One run of the stage. Of a killed attempt only the files it had read to the end are left; the rest is redone."""
    from corpus.config import MINED, CorpusConfig
    from corpus.decontaminate import Decontaminator, load_benchmarks
    from corpus.ledger import Ledger
    from corpus.merge import read_crawl
    from corpus.mixture import Document, write_mixture
    from corpus.pages import PageStore
    from corpus.rounds import Miner
    from corpus.seed import read_seed
    from corpus.texts import local_files
    from corpus.tokenize import Tokenizer

    for leftover in stage.work.iterdir():
        if leftover.name not in KEPT:
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
        crawl, origin = read_crawl(stage, config, store, workers)
        mined = Miner(stage, config, seed, crawl, tokenizer, workers).run()
        stage.drop("below the cut", len(crawl) - len(mined.collected))
        ledger = Ledger(crawl, origin, mined)
        pages = ((crawl.page(p), p) for p in mined.collected)
        documents = (Document(page.id, page.text, ledger.document(p)) for page, p in pages)
        contaminated = write_mixture(stage, config, documents, check, tokenizer)
        ledger.write(stage.work / "ledger.jsonl", contaminated, MINED)
    remove(stage.work / "read")


def main(argv: list[str] | None = None) -> int:
    """0 published, 2 bad input (one line says which), 75 preempted."""
    options = parser(__doc__)
    options.add_argument("--run-dir", type=Path, help="run directory holding profile.yaml and plan.json")
    options.add_argument("--input", nargs="+", action="extend", metavar="FILE", help="archives: paths, globs, URLs")
    options.add_argument("--output", type=Path, metavar="DIR", help="directory to make a run directory of")
    options.add_argument("--profile", default="tiny", help="with --input: a profile's name or file (default: tiny)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options.add_argument(
        "--workers", type=int, default=cores, help="processes that read and score (default: all %(default)s cores)"
    )
    options.add_argument(
        "--share", type=_share, metavar="I/N", help="with --run-dir: only read the I-th of N shares of the files"
    )
    args = options.parse_args(argv)
    if (args.run_dir is None) == (args.input is None) or (args.input is None) != (args.output is None):
        options.error("give either --run-dir, or --input and --output")
    if args.share and args.run_dir is None:
        options.error("--share goes with --run-dir")
    return outcome(lambda: _mine(args, max(1, args.workers)))


def _mine(args: argparse.Namespace, workers: int) -> int:
    if args.share:
        from corpus.share import read_share

        return read_share(args.run_dir, args.share, workers)
    if args.input:
        from corpus.standalone import make_run

        make_run(args.input, args.output, args.profile)
    run_dir = args.run_dir or args.output
    code = run_stage("corpus", partial(body, workers=workers), run_dir)
    if code == 0:
        print(f"corpus: published in {run_dir / 'corpus'}", flush=True)
    return code


def _share(text: str) -> tuple[int, int]:
    from corpus.share import parse_share

    return parse_share(text)


if __name__ == "__main__":
    sys.exit(main())
