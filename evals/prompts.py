"""The prompts of the paper: the chat form for tuned models, worked examples for base models.

In: a question and what its benchmark says about prompting. Out: the text a model continues, and where to stop it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """What the model is given; what it writes ends before the first of `stop` (or at its end-of-text token)."""

    text: str
    stop: tuple[str, ...] = ()
    message: str = ""  # the user's turn alone, for servers with a chat template of their own


@dataclass(frozen=True)
class Shots:
    """Worked examples: each written by `layout`, which has the places {question} and {solution}."""

    layout: str
    stop: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]  # question, solution


# How a tuned model is asked to use tools: the texts of the DeepSeekMath repository's evaluation/README.md.
TOOL_INSTRUCTIONS = {
    "en": "Please integrate natural language reasoning with programs to solve the problem above, "
    r"and put your final answer within \boxed{}.",
    "zh": r"请结合自然语言和Python程序语言来解答问题，并把最终答案放置于\boxed{}中。",
}
# The paper asks only base models for bare programs, by examples; this text for tuned ones is ours.
PROGRAM_INSTRUCTIONS = {
    "en": "Please write a Python program that solves the problem above and prints the answer.",
    "zh": "请编写一个Python程序来解答上述问题，并打印答案。",
}
CHAT_STOP = ("\nUser:",)  # a model that never learnt to end its turn starts the next one


def chat_message(question: str, instruction: str = "") -> str:
    """The user's turn: the question, and the instruction on a line of its own."""
    return f"{question}\n{instruction}" if instruction else question


def chat_prompt(question: str, instruction: str = "") -> str:
    """The zero-shot chat form: `User: {question}\\n{instruction}\\n\\nAssistant: `."""
    return f"User: {chat_message(question, instruction)}\n\nAssistant: "


def few_shot_prompt(question: str, shots: Shots) -> str:
    """The worked examples, then the question with its solution left open."""
    head, _, _ = shots.layout.partition("{solution}")
    parts = [shots.layout.format(question=q, solution=s) for q, s in shots.examples]
    return "\n\n".join([*parts, head.format(question=question).rstrip(" ")])


def cut_at_stop(text: str, stop: tuple[str, ...]) -> str:
    """`text` up to the first of the stop strings."""
    ends = [i for s in stop if (i := text.find(s)) >= 0]
    return text[: min(ends)] if ends else text
