"""Instruction tuning: formats, packing, the training stage."""
