"""Runs programs that a model wrote, where they can do no harm.

    with Sandbox(Limits(seconds=5)) as sandbox:
        sandbox.run("print(1 + 1)").stdout  # "2\\n"

`RemoteSandbox(url)` asks a SandboxFusion server instead. Importing this package loads nothing heavy.
"""

from evals.sandbox.execution import Execution, Limits, SandboxFailed
from evals.sandbox.pool import Sandbox
from evals.sandbox.remote import RemoteSandbox

__all__ = ["Execution", "Limits", "RemoteSandbox", "Sandbox", "SandboxFailed"]
