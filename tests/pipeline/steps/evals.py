"""The test graph's stage `evals`."""

import sys

from stage import stage_main
from tests.pipeline.steps.counting import count

if __name__ == "__main__":
    sys.exit(stage_main("evals", count))
