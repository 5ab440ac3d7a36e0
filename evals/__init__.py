"""Evaluation: benchmarks, prompts, answer extraction and equivalence, metrics, report; and the SGLang server they use.

`is_correct(gold, answer)` is what others use (the RL rewards among them). Importing this package loads nothing heavy.
"""

from evals.equivalence import is_correct

__all__ = ["is_correct"]
