"""Group-relative advantages: how much better than its siblings an output is."""

import torch

EPSILON = 1e-6  # added to the standard deviation: a group of equal rewards then has advantage 0, not 0/0


def outcome_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """(R_i - mean(R)) / (std(R) + 1e-6) in each group; every token of output i shares it.

    DeepSeekMath, section 4.1.2 (outcome supervision), with the population standard deviation. Computed in fp64: in fp32
    the mean of equal rewards may miss them by one rounding, which the small divisor would turn into an advantage.
    rewards [questions, group_size] -> advantages of the same shape and dtype.
    """
    exact = rewards.double()
    std = exact.std(dim=1, keepdim=True, unbiased=False)
    return ((exact - exact.mean(dim=1, keepdim=True)) / (std + EPSILON)).to(rewards.dtype)
