"""Group-relative advantages: how much better than its siblings an output is."""

import torch

EPSILON = 1e-6  # added to the standard deviation: a group of equal rewards then has advantage 0, not 0/0


def outcome_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """(R_i - mean(R)) / (std(R) + 1e-6) in each group; every token of output i shares it.

    DeepSeekMath, section 4.1.2 (outcome supervision), with the population standard deviation.
    rewards [questions, group_size] -> advantages of the same shape, fp32.
    """
    mean = rewards.mean(dim=1, keepdim=True)
    std = rewards.std(dim=1, keepdim=True, unbiased=False)
    return (rewards - mean) / (std + EPSILON)
