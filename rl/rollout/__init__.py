"""Sampling from the policy during training: an SGLang server that is fed new weights and survives its own death."""
