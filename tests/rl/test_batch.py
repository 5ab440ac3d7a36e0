"""Outputs and solutions as tensors: every value at the position that predicts its token."""

import torch

from rl.batch import Output, collate, micro_batches, padded_length
from rl.questions import Question, questions_of_step
from rl.reward.model import Solution, StepTokens
from rl.reward.model import collate as collate_solutions
from rl.reward.train import split_by_question

OUTPUTS = [Output([1, 2, 3], [4, 5], [-0.4, -0.5], 1.5), Output([6], [7, 8, 9], [-0.7, -0.8, -0.9], -0.5)]


def test_values_stand_where_their_token_is_predicted() -> None:
    batch = collate(OUTPUTS, length=16, pad_id=0)
    for row, o in enumerate(OUTPUTS):
        at = torch.nonzero(batch["mask"][row]).flatten()
        assert batch["labels"][row, at].tolist() == o.output_ids
        torch.testing.assert_close(batch["old_logprobs"][row, at], torch.tensor(o.logprobs))
        assert batch["tokens"][row, at + 1].tolist() == o.output_ids
        assert batch["tokens"][row, : len(o.prompt_ids)].tolist() == o.prompt_ids
    assert batch["advantages"].tolist() == [1.5, -0.5]


def test_ranks_share_the_outputs_without_overlap_in_one_shape() -> None:
    outputs = [Output([1] * n, [2, 3], [-1.0, -1.0], float(n)) for n in range(1, 9)]
    shares = [micro_batches(outputs, micro_batch_size=2, rank=r, ranks=2, pad_id=0) for r in range(2)]
    advantages = [a for share in shares for b in share for a in b["advantages"].tolist()]
    assert sorted(advantages) == [float(n) for n in range(1, 9)]
    assert {b["tokens"].shape for share in shares for b in share} == {(2, padded_length([10]))}


def test_every_step_of_a_solution_has_a_tag_with_its_label() -> None:
    tokens = StepTokens(tag=90, good=91, bad=92, pad=0)
    solution = Solution([1, 2], [[3, 4], [5]], [1.0, 0.25])
    batch = collate_solutions([solution], solution.length, tokens)
    assert batch["tokens"][0].tolist() == [1, 2, 3, 4, 90, 5, 90]
    assert batch["tokens"][batch["tags"]].tolist() == [90, 90]
    assert batch["step_labels"][batch["tags"]].tolist() == [1.0, 0.25]


def test_an_epoch_asks_every_question_once() -> None:
    questions = [Question(str(n), [n], str(n)) for n in range(12)]
    asked = [q.text for step in range(3) for q in questions_of_step(questions, step, per_step=4, seed=1)]
    assert sorted(asked, key=int) == [q.text for q in questions]
    again = [q.text for step in range(3, 6) for q in questions_of_step(questions, step, per_step=4, seed=1)]
    assert sorted(again) == sorted(asked) and again != asked


def test_no_question_is_both_trained_on_and_held_out() -> None:
    from rl.reward.completions import Labelled

    items = [Labelled(n // 3, "", "1", True, [1], [[2]], [1.0]) for n in range(30)]
    train, held_out = split_by_question(items, 0.2)
    assert {i.question for i in train}.isdisjoint(i.question for i in held_out)
    assert len(train) + len(held_out) == 30 and len({i.question for i in held_out}) == 2
