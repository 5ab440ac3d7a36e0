"""A sandbox behind HTTP: SandboxFusion's protocol, POST /run_code.

In: programs, the server's URL. Out: an Execution each, as from the local sandbox. The containment is the server's.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from evals.sandbox import program
from evals.sandbox.execution import Execution, Limits, SandboxFailed
from evals.sandbox.zygote import Kept

TRIES = 3
GRACE = 30.0  # seconds the server may take beyond the program's limit: it may have a queue
# program.py's text comes first, so that a last expression is shown and an error is one line, as in the local sandbox.
CALL = "\n_kind, _error = run({source!r})\nif _error is not None:\n    sys.stderr.write(_error)\n    sys.exit(1)\n"


class RemoteSandbox:
    """Runs programs on the SandboxFusion server at `url`, `workers` at a time."""

    def __init__(self, url: str, limits: Limits | None = None, workers: int = 16) -> None:
        self.url, self.limits = url.rstrip("/"), limits or Limits()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sandbox")

    def __enter__(self) -> "RemoteSandbox":
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def strength(self) -> list[str]:
        """Where the programs run."""
        return [f"remote: {self.url}"]

    def run(self, code: str) -> Execution:
        """Run one program; SandboxFailed when the server does not, three times."""
        import requests  # not above: the local sandbox's workers import this package, and fork faster without

        body = {
            "code": Path(program.__file__).read_text() + CALL.format(source=code),
            "language": "python",
            "run_timeout": self.limits.seconds,
            "memory_limit_MB": self.limits.memory_bytes // 2**20,
        }
        reason = ""
        for attempt in range(TRIES):
            time.sleep(attempt)
            try:
                response = requests.post(f"{self.url}/run_code", json=body, timeout=self.limits.seconds + GRACE)
                response.raise_for_status()
                answer = response.json()
                if answer["status"] != "SandboxError":
                    return self._execution(answer["run_result"])
                reason = str(answer.get("message"))
            except (requests.RequestException, KeyError, TypeError, ValueError) as error:
                reason = repr(error)
        raise SandboxFailed(f"{self.url}/run_code: {reason[:500]}")

    def run_many(self, codes: Sequence[str]) -> list[Execution]:
        """Run programs side by side; the results have the programs' order."""
        return list(self._threads.map(self.run, codes))

    def _execution(self, result: dict[str, Any]) -> Execution:
        """SandboxFusion's run_result: status, return_code, stdout, stderr, execution_time."""
        kept = Kept(self.limits.output_bytes)
        kept.add(memoryview((result["stdout"] or "").encode("utf-8", "replace")))
        stdout = b"".join(kept.parts()).decode("utf-8", "replace")
        seconds = float(result.get("execution_time") or 0.0)
        if result["status"] == "TimeLimitExceeded":
            error = f"TimeoutError: no end within {self.limits.seconds:g} seconds"
            return Execution(stdout, error, "timeout", seconds)
        code = result["return_code"]
        if not code:
            return Execution(stdout, None, "ok", seconds)
        line = (result["stderr"] or "").strip().rsplit("\n", 1)[-1][: program.MAX_MESSAGE] or f"exit status {code}"
        if code < 0:
            return Execution(stdout, line, "killed", seconds)
        return Execution(stdout, line, "memory" if line.startswith("MemoryError") else "error", seconds)
