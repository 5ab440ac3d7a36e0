"""Stage `grpo`: Group Relative Policy Optimization (DeepSeekMath, section 4.1, algorithm 1), outcome supervision.

Reads sft/hf (and reward/hf when the reward is the model's); publishes hf/, megatron/, samples.jsonl with every
rollout, losses.jsonl and, in the manifest, the reward curve.
"""

import sys

from stage import Stage, stage_main


def body(stage: Stage) -> None:
    from pretrain import checkpoint, loop, parallel
    from rl.advantages import outcome_advantages
    from rl.questions import questions_of_step
    from rl.trainer import Trainer

    t = Trainer(stage)
    config, resume = t.config, stage.work / "resume"
    start = checkpoint.load(t.policy, resume)
    log, samples = loop.LossLog(stage, start), t.sample_log(start)
    with t.rollouts, stage.progress("train", config.train_iters, "steps", start) as progress:
        for step in range(start, config.train_iters):
            questions = questions_of_step(t.questions, step, config.questions_per_step, t.seed)
            t.sync_weights(step)  # pi_old <- pi_theta
            groups = t.sample(questions)  # G outputs for each question
            rewards = t.reward(questions, groups)  # [questions, G]
            advantages = outcome_advantages(rewards)
            values = t.update(questions, groups, advantages)

            samples.write(step, questions, groups, rewards, advantages)
            log.write(step + 1, {**values, **t.describe(groups, rewards)})
            progress.update(1, reward=f"{rewards.mean():.3f}", kl=f"{values['kl']:.4f}")
            loop.save_if_due(stage, t.policy, resume, step + 1, config.train_iters)
    outputs = config.train_iters * config.questions_per_step * config.group_size
    stage.counts |= {"in": config.train_iters * config.questions_per_step, "out": outputs}
    stage.metrics |= log.summary(curve_of="reward") | {"steps": config.train_iters, "server_restarts": t.restarts}
    loop.publish_model(stage, t.policy, t.eos)
    parallel.finalize()


def main(argv: list[str] | None = None) -> int:
    return stage_main("grpo", body, argv, __doc__)


if __name__ == "__main__":
    sys.exit(main())
