"""The order of the stages: profiles, plans, the run directory, executors and status.

Floor 5: starts the stages as programs of their own and never imports torch, megatron or sglang, so that `--help` and
`status` answer at once. Use `python -m pipeline.run`, `python -m pipeline.status`, `python -m pipeline.plan`.
"""
