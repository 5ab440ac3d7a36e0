"""The few numbers that say what a stage is about to do, and what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.config import Profile
    from pretrain.config import ModelConfig, TrainingConfig

SHOWN = 4  # metrics of a manifest in one table cell
FIRST = {  # the most telling of them, where a stage has many
    "reward": ("held_out_step_accuracy", "held_out_constant_guess_accuracy", "labelled_steps", "mean_label"),
    "grpo": ("reward", "kl", "entropy", "steps"),
}


def of_profile(profile: Profile, stage: str) -> str:
    """The settings of a stage in the paper's terms: `G 64, kl_coef 0.04, lr 1e-06, …`."""
    match stage:
        case "corpus":
            return _corpus(profile)
        case "pretrain":
            c = profile.pretrain
            batch = c.global_batch_size * c.seq_length
            return (
                f"{model_size(profile.model)} parameters, {short(c.train_tokens)} tokens, {_optimizer(c)}, "
                f"batch {c.global_batch_size} x {c.seq_length} = {short(batch)} tokens, {c.train_iters} steps"
            )
        case "sft":
            s = profile.sft
            sources = ", ".join(source.name for source in s.sources)
            return (
                f"{s.train_iters} steps, {_optimizer(s)}, batch {s.global_batch_size} x {s.seq_length}, from {sources}"
            )
        case "reward":
            r = profile.reward
            return (
                f"{r.questions.num_questions} questions, {r.num_solutions} solutions each, N {r.num_completions} "
                f"completions a step, {r.label} labels, {_optimizer(r)}"
            )
        case "grpo":
            g = profile.grpo
            return (
                f"G {g.group_size}, kl_coef {g.kl_coef:g}, {_optimizer(g)}, batch {g.global_batch_size}, "
                f"clip_eps {g.clip_eps:g}, max_new_tokens {g.max_new_tokens}, {g.train_iters} steps, "
                f"{g.questions.num_questions} questions, reward {g.reward}"
            )
        case _:
            return "; ".join(
                f"{b.key} greedy, Maj@{b.num_samples}, Pass@{b.num_samples}" for b in profile.evals.benchmarks
            )


def of_manifest(manifest: dict[str, Any]) -> str:
    """The most telling numbers and words among a stage's metrics."""
    metrics = manifest["metrics"]
    first = [k for k in FIRST.get(manifest["stage"], ()) if k in metrics]
    plain = {k: metrics[k] for k in dict.fromkeys([*first, *metrics]) if isinstance(metrics[k], int | float | str)}
    return "  ".join(f"{k} {_value(v)}" for k, v in list(plain.items())[:SHOWN])


def short(number: float) -> str:
    """`500000000000` -> `500B`, `10485760` -> `10.5M`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:g}"


def model_size(m: ModelConfig) -> str:
    """Parameters of the Llama-shaped model: attention, gated feed-forward, embeddings; norms are too small to count."""
    head = m.hidden_size // m.num_attention_heads
    attention = m.hidden_size * head * 2 * (m.num_attention_heads + m.num_query_groups)
    layer = attention + 3 * m.hidden_size * m.ffn_hidden_size
    embeddings = m.vocab_size * m.hidden_size * (1 if m.tie_word_embeddings else 2)
    return short(m.num_layers * layer + embeddings)


def _optimizer(c: TrainingConfig) -> str:
    schedule = f" {c.optimizer.lr_schedule}"
    warmup = f" with {c.optimizer.lr_warmup_steps} steps of warm-up" if c.optimizer.lr_warmup_steps else ""
    return f"lr {c.optimizer.lr:g}{schedule}{warmup}"


def _corpus(profile: Profile) -> str:
    c = profile.corpus
    budgets = [short(n) for n in c.rounds.token_budgets or ()]
    cut = f"keep {', '.join(budgets)} tokens" if budgets else f"keep pages that score {c.rounds.score_threshold:g}"
    mixture = ", ".join(f"{source.weight:.0%} {source.name}" for source in c.sources)
    f = c.classifier
    return (
        f"{c.rounds.max_rounds} rounds, {cut}, domains from {c.rounds.domain_share:.0%}, "
        f"fastText dim {f.dim} lr {f.lr:g} word_ngrams {f.word_ngrams} min_count {f.min_count} epochs {f.epochs}, "
        f"{c.decontamination.ngram}-grams of {', '.join(b.name for b in c.decontamination.benchmarks)} removed, "
        f"mixture {mixture}"
    )


def _value(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
