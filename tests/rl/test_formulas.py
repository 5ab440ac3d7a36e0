"""The recipe's formulas, recomputed independently in float64 numpy."""

import numpy as np
import pytest
import torch

from rl.advantages import EPSILON, outcome_advantages
from rl.kl import k3
from rl.objectives import grpo_loss
from rl.reward.labels import estimate, join_steps, split_steps
from rl.reward.model import solution_score

OUTPUTS, SEQ, CLIP, BETA = 6, 9, 0.2, 0.04


def random_case(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, SEQ + 1, OUTPUTS)
    return {
        "logp": -rng.exponential(1.0, (OUTPUTS, SEQ)),
        "old": -rng.exponential(1.0, (OUTPUTS, SEQ)),
        "ref": -rng.exponential(1.0, (OUTPUTS, SEQ)),
        "advantages": rng.normal(size=OUTPUTS),
        "mask": (np.arange(SEQ) < lengths[:, None]).astype(float),
    }


def grpo_by_hand(case: dict[str, np.ndarray]) -> float:
    """Equation 3 written as loops."""
    total = 0.0
    for i in range(OUTPUTS):
        tokens = [t for t in range(SEQ) if case["mask"][i, t]]
        objective = 0.0
        for t in tokens:
            ratio = np.exp(case["logp"][i, t] - case["old"][i, t])
            a = case["advantages"][i]
            surrogate = min(ratio * a, min(max(ratio, 1 - CLIP), 1 + CLIP) * a)
            quotient = np.exp(case["ref"][i, t] - case["logp"][i, t])
            objective += surrogate - BETA * (quotient - np.log(quotient) - 1)
        total += objective / len(tokens)
    return -total


@pytest.mark.parametrize("seed", range(5))
def test_grpo_loss_is_equation_3(seed: int) -> None:
    case = random_case(seed)
    t = {k: torch.tensor(v) for k, v in case.items()}
    loss, _ = grpo_loss(t["logp"], t["old"], t["ref"], t["advantages"], t["mask"], CLIP, BETA)
    assert loss.item() == pytest.approx(grpo_by_hand(case), rel=1e-12)


def test_the_gradient_is_the_papers_gradient_coefficient() -> None:
    """On policy, d(-J)/d log pi_t = -(A + beta (pi_ref/pi_theta - 1)) / |o|: the GRPO row of the paper's table."""
    case = random_case(7)
    t = {k: torch.tensor(v) for k, v in case.items()}
    logp = t["logp"].clone().requires_grad_()
    loss, _ = grpo_loss(logp, t["logp"], t["ref"], t["advantages"], t["mask"], CLIP, BETA)
    loss.backward()
    coefficient = case["advantages"][:, None] + BETA * (np.exp(case["ref"] - case["logp"]) - 1)
    expected = -coefficient * case["mask"] / case["mask"].sum(1, keepdims=True)
    np.testing.assert_allclose(logp.grad.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_tokens_outside_the_mask_have_no_say() -> None:
    case = random_case(3)
    t = {k: torch.tensor(v) for k, v in case.items()}
    args = (t["old"], t["ref"], t["advantages"], t["mask"], CLIP, BETA)
    loss, _ = grpo_loss(t["logp"], *args)
    noisy = t["logp"] - 5 * (1 - t["mask"])
    loss_noisy, _ = grpo_loss(noisy, *args)
    assert loss.item() == loss_noisy.item()


def test_k3_is_never_negative_and_zero_for_equal_policies() -> None:
    rng = np.random.default_rng(0)
    logp, ref = torch.tensor(-rng.exponential(size=1000)), torch.tensor(-rng.exponential(size=1000))
    assert (k3(logp, ref) >= 0).all()
    assert (k3(logp, logp) == 0).all()


def test_k3_is_unbiased() -> None:
    """E_pi[k3] = KL(pi || ref), exactly, over a small vocabulary."""
    rng = np.random.default_rng(1)
    pi, ref = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    expected = float((pi * k3(torch.tensor(np.log(pi)), torch.tensor(np.log(ref))).numpy()).sum())
    assert expected == pytest.approx(float((pi * np.log(pi / ref)).sum()), rel=1e-12)


def test_advantages_are_rewards_standardised_in_their_group() -> None:
    rewards = np.random.default_rng(2).normal(size=(5, 8))
    expected = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, keepdims=True) + EPSILON)
    np.testing.assert_allclose(outcome_advantages(torch.tensor(rewards)).numpy(), expected, rtol=1e-12)


def test_identical_rewards_teach_nothing() -> None:
    assert (outcome_advantages(torch.full((3, 4), 0.7, dtype=torch.float64)).abs() < 1e-9).all()
    assert (outcome_advantages(torch.ones(3, 4)) == 0).all()
    for reward in (0.0, 1.0, 0.7, 1e-3, 0.123456):  # fp32 cannot hold the last three, nor the mean of some of them
        assert outcome_advantages(torch.full((3, 7), reward)).abs().max() < 1e-6


def test_the_same_reward_pushes_up_on_a_hard_question_and_down_on_an_easy_one() -> None:
    advantages = outcome_advantages(torch.tensor([[0.5, 0.0, 0.0, 0.0], [0.5, 1.0, 1.0, 1.0]]))
    assert advantages[0, 0] > 0 > advantages[1, 0]


def test_hard_label_is_any_and_soft_label_is_the_mean() -> None:
    completions = [True, False, False, False]
    assert estimate(completions, "hard") == 1.0
    assert estimate(completions, "soft") == 0.25
    assert estimate([False] * 8, "hard") == estimate([False] * 8, "soft") == 0.0
    with pytest.raises(ValueError, match="hard"):
        estimate(completions, "medium")


def test_steps_end_with_line_feeds_and_lose_no_token() -> None:
    output = [1, 2, 99, 3, 99, 99, 4]
    steps = split_steps(output, frozenset({99}))
    assert steps == [[1, 2, 99], [3, 99, 99], [4]]
    assert join_steps(steps) == output
    assert split_steps([], frozenset({99})) == []


def test_a_solution_is_as_good_as_its_weakest_step() -> None:
    assert solution_score([0.9, 0.2, 0.8]) == 0.2
