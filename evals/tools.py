r"""Tool-integrated reasoning: the model writes text and programs, reads what these print, and goes on.

    Let us compute it.
    ```python
    print(2 ** 10)
    ```
    ```output
    1024
    ```
    The answer is $\boxed{1024}$.

In: prompts, a function that continues texts, a function that runs programs. Out: a Trajectory for each prompt. All
trajectories advance together: a round asks the model for every open one at once, then runs all their programs at once.
Program-of-thought is the case of one round in which the printed output is the answer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evals.extraction import MARKS, Method, extract_answer
from evals.sandbox.execution import Execution
from evals.writers import Generated, Unanswered

OUTPUT = "```output"  # the model stops here: what follows is the sandbox's to write
SHOWN = 100  # characters of output that the model gets to see, as in ToRA and in DeepSeekMath's evaluation
_PROGRAM = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Later programs may use what earlier ones defined; nothing of a program outlives its execution, so they run again.
_EARLIER = """import contextlib, io
for _earlier in {earlier!r}:
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        exec(_earlier, globals())
"""


@dataclass
class Trajectory:
    """One solution as it grows: the model's text with the outputs of its programs in between."""

    prompt: str
    text: str = ""
    rounds: int = 0
    tokens: int = 0  # the model's own; outputs are not counted
    finish_reason: str = "stop"
    unanswered: Unanswered | None = None  # the model could not be asked on
    executions: list[Execution] = field(default_factory=list)

    def add(self, generated: Generated | Unanswered) -> None:
        """A round's text."""
        if isinstance(generated, Unanswered):
            self.unanswered = generated
            return
        self.text += generated.text
        self.rounds += 1
        self.tokens += generated.tokens
        self.finish_reason = generated.finish_reason

    @property
    def waits(self) -> bool:
        """Whether it ends with a program that has not been run."""
        ends = [block.end() for block in _PROGRAM.finditer(self.text)]
        return (
            self.unanswered is None
            and bool(ends)
            and not self.text[ends[-1] :].strip()
            and len(ends) > len(self.executions)
        )

    def show(self, execution: Execution) -> None:
        """Append the output of the last program."""
        self.executions.append(execution)
        self.text = f"{self.text.rstrip()}\n{OUTPUT}\n{shown(execution)}\n```\n"


def solve(
    prompts: Sequence[str],
    generate: Callable[[list[str]], list[Generated | Unanswered]],
    run_many: Callable[[list[str]], list[Execution]],
    max_rounds: int,
) -> list[Trajectory]:
    """Let the model write, at most `max_rounds` times for a prompt, and run each program that it stops after.

    The output of a last round's program is appended too; that trajectory's finish_reason is `length`.
    """
    trajectories = [Trajectory(prompt) for prompt in prompts]
    unfinished = trajectories
    for _ in range(max_rounds):
        if not unfinished:
            break
        for trajectory, generated in zip(unfinished, generate([t.prompt + t.text for t in unfinished]), strict=True):
            trajectory.add(generated)
        unfinished = [t for t in unfinished if t.waits]
        executions = run_many([session(programs(t.text)) for t in unfinished])
        for trajectory, execution in zip(unfinished, executions, strict=True):
            trajectory.show(execution)
    for trajectory in unfinished:
        trajectory.finish_reason = "length"
    return trajectories


def run_program(
    prompts: Sequence[str],
    generate: Callable[[list[str]], list[Generated | Unanswered]],
    run_many: Callable[[list[str]], list[Execution]],
) -> list[Trajectory]:
    """Program-of-thought: one program a prompt, in a ```python block or else the whole text."""
    trajectories = [Trajectory(prompt) for prompt in prompts]
    for trajectory, generated in zip(trajectories, generate(list(prompts)), strict=True):
        trajectory.add(generated)
    written = [t for t in trajectories if t.unanswered is None]
    codes = [session(programs(t.text)) or t.text for t in written]
    for trajectory, execution in zip(written, run_many(codes), strict=True):
        trajectory.show(execution)
    return trajectories


def programs(text: str) -> list[str]:
    """The closed ```python blocks of a text, in order."""
    return _PROGRAM.findall(text)


def session(blocks: Sequence[str]) -> str:
    """The last of the programs, after the others have run without a word; empty when there are none."""
    if len(blocks) < 2:
        return "".join(blocks)
    return _EARLIER.format(earlier=list(blocks[:-1])) + blocks[-1]


def shown(execution: Execution) -> str:
    """What the model reads: the output, then the error if there was one; a long text's beginning and end."""
    text = "\n".join(part for part in (execution.stdout.strip(), execution.error) if part)
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]}...{text[-SHOWN // 2 :]}"


def tool_answer(trajectory: Trajectory, methods: Sequence[Method]) -> str | None:
    """The answer marked in the model's prose; without a mark, what the last program printed."""
    marked = extract_answer(trajectory.text, [m for m in methods if m in MARKS])
    if marked is None and trajectory.executions:
        return printed_answer(trajectory)
    return marked if marked is not None else extract_answer(trajectory.text, methods)


def printed_answer(trajectory: Trajectory) -> str | None:
    """The last line that the last program printed, or the answer marked in it; None when the program failed."""
    execution = trajectory.executions[-1]
    lines = execution.stdout.strip().splitlines()
    return extract_answer(lines[-1], ("boxed", "phrase", "plain")) if execution.status == "ok" and lines else None
