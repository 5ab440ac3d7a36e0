"""Stage `reward`: Math-Shepherd labels from the SFT model's own completions, a process reward model trained on them.

Reads sft/hf; publishes labels.jsonl, hf/, megatron/ and, in the manifest, the accuracy on the steps of held-out
questions beside that of the constant guess, and the reliability curve of its probabilities there.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stage import Preempted, Stage, UsageError, stage_main

if TYPE_CHECKING:
    from pretrain.engine import Engine
    from rl.config import RewardConfig
    from rl.reward.completions import Labelled
    from rl.reward.model import StepTokens


def body(stage: Stage) -> None:
    from transformers import AutoTokenizer

    from pretrain import loop, parallel
    from pretrain.config import ModelConfig
    from pretrain.engine import Engine
    from rl.config import RewardConfig
    from rl.reward.model import step_tokens

    config, model = stage.section("reward", RewardConfig), stage.section("model", ModelConfig)
    parallel.initialize(config.parallel, int(stage.profile["seed"]))
    tokenizer = AutoTokenizer.from_pretrained(stage.profile["tokenizer"])
    tokens = step_tokens(tokenizer, config)
    mine = _label(stage, config, tokenizer) if stage.rank == 0 else None
    labelled: list[Labelled] | None = parallel.from_rank_zero(mine)
    if labelled is None:
        raise Preempted(stage.name)
    fitting = [item for item in labelled if item.solution.length <= config.seq_length]
    if len(fitting) < len(labelled):
        stage.drop(f"solution with its tags longer than seq_length {config.seq_length}", len(labelled) - len(fitting))
    train, held_out = split_by_question(fitting, config.held_out_fraction)
    iters = config.epochs * (len(train) // config.global_batch_size)
    if iters == 0 or not held_out:
        raise UsageError(
            f"reward: {len(train)} labelled solutions to train on, {len(held_out)} held out: less than one batch of "
            f"global_batch_size {config.global_batch_size}; raise reward.questions.num_questions"
        )
    engine = Engine(model, config, weights=stage.input("sft") / "hf", train_iters=iters)
    _train(stage, engine, train, tokens, iters)
    stage.metrics |= held_out_accuracy(engine, held_out, tokens)
    loop.publish_model(stage, engine, tokenizer.eos_token_id)
    parallel.finalize()


def split_by_question(
    labelled: Sequence["Labelled"], held_out_fraction: float
) -> tuple[list["Labelled"], list["Labelled"]]:
    """Train and held-out solutions; all solutions of a question are on one side (the last questions are held out)."""
    last = max((item.question for item in labelled), default=0)
    first_held_out = int((last + 1) * (1 - held_out_fraction))
    return [i for i in labelled if i.question < first_held_out], [i for i in labelled if i.question >= first_held_out]


def held_out_accuracy(engine: "Engine", held_out: Sequence["Labelled"], tokens: "StepTokens") -> dict[str, Any]:
    """Accuracy of p(good) > 1/2 against the labels, by step and by solution (its weakest step, its own answer).

    With it the calibration of p(good) on the steps: reliability curve, its expected error, the Brier score.
    """
    from rl.reward.calibration import brier_score, expected_calibration_error, reliability
    from rl.reward.model import score, solution_score

    scores = score(engine, [item.solution for item in held_out], tokens)
    predicted = [p for ps in scores for p in ps]
    labels = [y for item in held_out for y in item.labels]
    steps = [(p > 0.5, y > 0.5) for p, y in zip(predicted, labels, strict=True)]
    curve = reliability(predicted, labels)
    whole = [(solution_score(ps) > 0.5, item.correct) for ps, item in zip(scores, held_out, strict=True)]
    good = sum(y for _, y in steps) / len(steps)
    return {
        "held_out_steps": len(steps),
        "held_out_step_accuracy": sum(p == y for p, y in steps) / len(steps),
        "held_out_constant_guess_accuracy": max(good, 1 - good),
        "held_out_solution_accuracy": sum(p == y for p, y in whole) / len(whole),
        "held_out_calibration_error": expected_calibration_error(curve),
        "held_out_brier_score": brier_score(predicted, labels),
        "held_out_reliability": curve,
    }


def _label(stage: Stage, config: "RewardConfig", tokenizer: Any) -> "list[Labelled] | None":
    """All labelled solutions; None when the stage was told to stop before it had them."""
    from evals.server_config import ServerConfig
    from rl.questions import read_questions
    from rl.reward.completions import label_questions, read_labelled
    from rl.rollout.engine import RolloutEngine

    seed, path = int(stage.profile["seed"]), stage.work / "labels.jsonl"
    questions = read_questions(stage, config, tokenizer, seed + 1)
    labelled, first = read_labelled(path, config.num_solutions), 0
    if labelled:
        first = labelled[-1].question + 1
    stage.metrics["server_restarts"] = 0
    if first < len(questions):  # else a killed run had finished labelling: no server needed
        server, log = stage.section("server", ServerConfig), stage.run_dir / "logs" / "reward.sglang.log"
        with (
            RolloutEngine(stage.input("sft") / "hf", server, log, seed) as rollouts,
            stage.progress("label steps", len(questions), "questions", first) as progress,
        ):
            for lot in label_questions(questions, first, rollouts, tokenizer, config, path):
                labelled += lot
                progress.update(lot[-1].question + 1 - progress.done, steps=sum(len(item.steps) for item in labelled))
                if stage.preempted:
                    return None
            stage.metrics["server_restarts"] = rollouts.restarts
    steps = [y for item in labelled for y in item.labels]
    stage.counts |= {"in": len(questions), "out": len(labelled)}
    stage.metrics |= {"labelled_steps": len(steps), "mean_label": sum(steps) / len(steps)}
    stage.metrics["solutions_correct"] = sum(item.correct for item in labelled) / len(labelled)
    return labelled


def _train(stage: Stage, engine: "Engine", train: Sequence["Labelled"], tokens: "StepTokens", iters: int) -> None:
    from pretrain import loop
    from pretrain.engine import Batch
    from rl.batch import padded_length
    from rl.questions import epoch_order
    from rl.reward.model import collate, prm_loss

    solutions = [item.solution for item in train]
    length = padded_length([s.length for s in solutions])
    seed = int(stage.profile["seed"])

    def fetch(indices: Sequence[int]) -> Batch:
        n = len(solutions)
        chosen = [epoch_order(n, i // n, seed)[i % n] for i in indices]
        return collate([solutions[k] for k in chosen], length, tokens)

    loop.train(stage, engine, fetch, prm_loss, iters)


def main(argv: list[str] | None = None) -> int:
    return stage_main("reward", body, argv, __doc__)


if __name__ == "__main__":
    sys.exit(main())
