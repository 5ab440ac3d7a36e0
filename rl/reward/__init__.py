"""Rewards: the rule, Math-Shepherd labels, the process reward model."""
