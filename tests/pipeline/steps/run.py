"""`pipeline.run` over the small graph: RUN_DIR DATA [STAGES] [--set KEY=VALUE]… [--force STAGE]…"""

import argparse
import sys
from pathlib import Path

from pipeline.config import load_profile
from pipeline.run import run
from pipeline.run_dir import RunDir
from pipeline.stages import select
from stage import UsageError
from tests.pipeline.graph import specs


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("stages", nargs="?", default="all")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--force", action="append", default=[])
    parser.add_argument("--torchrun", action="store_true")
    args = parser.parse_args()
    graph = specs(args.data, args.torchrun)
    try:
        selected = select(args.stages, [s.name for s in graph])
        run_dir, profile = RunDir(args.run_dir), load_profile("tiny", args.overrides)
        with run_dir.lock():
            return run(profile, run_dir, selected, args.force, "local", graph)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
