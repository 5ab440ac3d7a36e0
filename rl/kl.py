"""Estimators of KL(pi_theta || pi_ref) from the log-probabilities of sampled tokens."""

import torch


def k3(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """pi_ref/pi_theta - log(pi_ref/pi_theta) - 1, token by token.

    DeepSeekMath, equation 4; Schulman's k3: unbiased under samples of pi_theta, never negative, its gradient
    coefficient is 1 - pi_ref/pi_theta. Inputs and output have one shape, fp32; nats.
    """
    log_ratio = ref_logprobs - logprobs
    return log_ratio.exp() - log_ratio - 1
