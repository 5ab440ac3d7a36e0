"""The benchmarks: one YAML each, their few-shot examples, and the demo's generated task (`word_problems.py`)."""
