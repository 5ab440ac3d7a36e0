"""Continued pretraining, and the Megatron engine that every training stage shares."""
