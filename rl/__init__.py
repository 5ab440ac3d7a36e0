"""Reward models and GRPO."""
