"""The paper's learning-rate schedule, step by step."""

import pytest

from pretrain.config import PretrainConfig
from pretrain.schedule import constant_lr, multi_step_lr

PEAK, WARMUP, STEPS = 4.2e-4, 2000, 50_000


@pytest.mark.parametrize(
    ("step", "share"),
    [
        (0, 1 / WARMUP),
        (WARMUP - 1, 1.0),
        (WARMUP, 1.0),
        (39_999, 1.0),
        (40_000, 0.316),
        (44_999, 0.316),
        (45_000, 0.1),
        (49_999, 0.1),
    ],
)
def test_multi_step_schedule_of_section_2_2(step: int, share: float) -> None:
    assert multi_step_lr(step, PEAK, WARMUP, STEPS) == pytest.approx(PEAK * share)


def test_constant_schedule_warms_up_to_the_peak_and_stays() -> None:
    assert [constant_lr(s, 1.0, 4) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert constant_lr(0, 1.0, 0) == 1.0


def test_the_defaults_are_the_papers() -> None:
    config = PretrainConfig()
    assert config.optimizer.lr == 4.2e-4 and config.optimizer.lr_warmup_steps == 2000
    assert config.global_batch_size * config.seq_length == pytest.approx(10e6, rel=0.05)
    assert config.train_iters * config.global_batch_size * config.seq_length >= 500e9
