"""Settings of instruction tuning. Defaults are the paper's (section 3): 500 steps, batch 256, lr 5e-5, 4K context."""

from pydantic import PositiveInt

from pretrain.config import OptimizerConfig, TrainingConfig
from stage.section import Section


class SftSource(Section):
    """Training examples: JSONL with `question` and `solution`, or the demo's seeded generator."""

    name: str
    path: str | None = None  # None: the generator of evals/benchmarks/word_problems.py
    question_key: str = "question"
    solution_key: str = "solution"
    num_examples: PositiveInt | None = None  # None: all of the file


class SftConfig(TrainingConfig):
    """One training example is a question, answered with a chain of thought; several are packed into a sequence."""

    optimizer: OptimizerConfig = OptimizerConfig(lr=5e-5)
    global_batch_size: PositiveInt = 256
    train_iters: PositiveInt = 500
    sources: list[SftSource]
