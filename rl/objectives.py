"""The GRPO objective as a loss over a micro-batch of outputs."""

import torch

from rl.kl import k3


def grpo_loss(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    ref_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    clip_eps: float,
    kl_coef: float,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The negative of the sum over outputs i of

        1/|o_i| sum_t [ min( r_t A_i, clip(r_t, 1 - eps, 1 + eps) A_i ) - beta KL_t ],   r_t = pi_theta/pi_old

    DeepSeekMath, equation 3, before the mean over outputs, with the k3 estimator of KL(pi_theta || pi_ref).

    logprobs, old_logprobs, ref_logprobs, mask: [outputs, seq] fp32, mask 1 on the tokens of the answer;
    advantages: [outputs]. Returns the sum, to be divided by the number of outputs, and sums over outputs of the
    token-averaged kl, clipped fraction, entropy estimate (-log pi) and |log r|. Outputs without tokens count as 0.
    """
    length = mask.sum(dim=1).clamp(min=1)

    def per_output(values: torch.Tensor) -> torch.Tensor:
        return ((values * mask).sum(dim=1) / length).sum()

    log_ratio = (logprobs - old_logprobs) * mask
    ratio = log_ratio.exp()
    a = advantages[:, None]
    unclipped, clipped = ratio * a, ratio.clamp(1 - clip_eps, 1 + clip_eps) * a
    kl = k3(logprobs, ref_logprobs * mask + logprobs.detach() * (1 - mask))
    loss = -per_output(torch.minimum(unclipped, clipped) - kl_coef * kl)
    with torch.no_grad():
        metrics = {
            "loss": loss.detach(),
            "kl": per_output(kl),
            "clip_fraction": per_output((clipped < unclipped).float()),
            "entropy": per_output(-logprobs),
            "old_policy_gap": per_output(log_ratio.abs()),
        }
    return loss, metrics
