"""Submits stages as a chain of Slurm jobs and watches them.

The published manifest is the truth about a stage: a cluster without an accounting database forgets its jobs. This
process may end at any time; the jobs go on, and the same command finds them again by the job ids in the run directory.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.executors.failure import explain
from pipeline.plan import PlannedStage
from pipeline.progress import Display
from pipeline.run_dir import Attempt, RunDir
from pipeline.source import REPOSITORY
from stage import UsageError
from stage.progress import duration

if TYPE_CHECKING:
    from pipeline.config import Profile

POLL_SECONDS = 2.0
FILE_SYSTEM_PATIENCE_SECONDS = 20.0  # how long a manifest published on another node may take to be seen here
SCRIPTS = REPOSITORY / "slurm"


class SlurmExecutor:
    """Runs the stages of `profile` as jobs of slurm/*.sh; hold the lock of `run_dir` while using this."""

    def __init__(
        self, run_dir: RunDir, profile: Profile, python: str = sys.executable, scripts: Path = SCRIPTS
    ) -> None:
        if shutil.which("sbatch") is None:
            raise UsageError("--executor slurm: no sbatch on PATH; install slurm-wlm, or use --executor local")
        self.run_dir, self.profile, self.python, self.scripts = run_dir, profile, python, scripts

    def run(self, stages: list[PlannedStage]) -> int:
        """Submit all of `stages`, each after its inputs, then wait for them in order."""
        jobs: dict[str, str] = {}
        for stage in stages:
            jobs[stage.name] = self._running_job(stage) or self._submit(
                stage, [jobs[n] for n in stage.inputs if n in jobs]
            )
        try:
            for number, stage in enumerate(stages, 1):
                code = self._wait(stage, jobs[stage.name], f"[{number}/{len(stages)}] {stage.name}")
                if code:
                    return code
        except KeyboardInterrupt:
            ids = " ".join(jobs.values())
            print(f"the jobs go on; the same command watches them again, `scancel {ids}` stops them", file=sys.stderr)
            return 130
        return 0

    def _running_job(self, stage: PlannedStage) -> str | None:
        """The job of an earlier command for the very same stage, if it still waits or runs."""
        attempt = self.run_dir.attempt(stage.name)
        if attempt is None or attempt.job is None or job_state(attempt.job) is None:
            return None
        if attempt.fingerprint != stage.fingerprint:
            raise UsageError(
                f"{stage.name}: Slurm job {attempt.job} still works on other settings; wait, or `scancel {attempt.job}`"
            )
        return attempt.job

    def _submit(self, stage: PlannedStage, after: list[str]) -> str:
        command = self.sbatch_command(stage, after)
        self.run_dir.log(stage.name).parent.mkdir(exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UsageError(f"{stage.name}: sbatch refused the job: {' '.join(done.stderr.split())}")
        job = done.stdout.strip().partition(";")[0]
        attempt = Attempt(stage.fingerprint, platform.node(), time.time(), job=job)
        self.run_dir.write_attempt(stage.name, attempt)
        print(f"{stage.name}: job {job} submitted{' after ' + ', '.join(after) if after else ''}", flush=True)
        return job

    def sbatch_command(self, stage: PlannedStage, after: list[str]) -> list[str]:
        """The sbatch line that submits `stage` to start once the jobs `after` have succeeded."""
        slurm, root = self.profile.slurm, self.run_dir.path.resolve()
        own = slurm.stages.get(stage.name)  # type: ignore[call-overload]
        time_limit = (own and own.time) or slurm.time
        gpus = own.gpus_per_node if own and own.gpus_per_node is not None else slurm.gpus_per_node
        more = own.sbatch_args if own and own.sbatch_args is not None else slurm.sbatch_args
        exports = {
            "MATHMILL_HOME": REPOSITORY,
            "RUN_DIR": root,
            "PROFILE": root / "profile.yaml",
            "PYTHON": self.python,
        }
        options = {
            "--job-name": f"{self.profile.name}-{stage.name}",
            "--partition": slurm.partition,
            "--account": slurm.account,
            "--time": time_limit,
            "--nodes": stage.nnodes,
            "--gpus-per-node": gpus,
            "--output": self.run_dir.log(stage.name).resolve(),
            "--open-mode": "append",
            "--chdir": os.getcwd(),
            "--dependency": f"afterok:{':'.join(after)}" if after else None,
            "--kill-on-invalid-dep": "yes",
            "--export": "ALL," + ",".join(f"{k}={v}" for k, v in exports.items()),
        }
        said = [f"{key}={value}" for key, value in options.items() if value is not None]
        return ["sbatch", "--parsable", *said, *more, str(self.scripts / stage.spec.script)]

    def _wait(self, stage: PlannedStage, job: str, title: str) -> int:
        print(f"{title}: job {job}, log {self.run_dir.log(stage.name)}", flush=True)
        began, said = time.monotonic(), ""
        with Display(stage.name) as display:
            while (state := job_state(job)) is not None:
                if state != said and state != "COMPLETING":
                    print(f"{title}: {state.lower()} after {duration(time.monotonic() - began)}", flush=True)
                    said = state
                if state == "RUNNING" and self.run_dir.work_fingerprint(stage.name) == stage.fingerprint:
                    display.show(self.run_dir.progress(stage.name))
                time.sleep(POLL_SECONDS)
        return self._ended(stage, job, title)

    def _ended(self, stage: PlannedStage, job: str, title: str) -> int:
        attempt = self.run_dir.attempt(stage.name)
        assert attempt is not None
        exit_code = exit_code_of(job)
        if exit_code in (0, None) and self._published(stage, exit_code):
            self.run_dir.write_attempt(stage.name, replace(attempt, exit_code=0))
            print(f"{title}: published", flush=True)
            return 0
        log = self.run_dir.log(stage.name)
        text = log.read_text(errors="replace").rpartition(f" job {job} (start ")[2] if log.is_file() else ""
        code, why = explain(exit_code or 1, text)
        self.run_dir.write_attempt(stage.name, replace(attempt, exit_code=code, error=why))
        print(f"error: {stage.name} failed (job {job}): {why}; log {log}", file=sys.stderr, flush=True)
        return code

    def _published(self, stage: PlannedStage, exit_code: int | None) -> bool:
        patience = FILE_SYSTEM_PATIENCE_SECONDS if exit_code == 0 else POLL_SECONDS
        deadline = time.monotonic() + patience
        while True:
            manifest = self.run_dir.manifest(stage.name)
            if manifest is not None and manifest["fingerprint"] == stage.fingerprint:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)


def job_state(job: str) -> str | None:
    """PENDING, RUNNING, COMPLETING … while a job is queued or runs; None once it is over, or unknown."""
    done = subprocess.run(["squeue", "--noheader", "--jobs", job, "--format", "%T"], capture_output=True, text=True)
    state = done.stdout.strip()
    over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
    return None if not state or state in over else state


def exit_code_of(job: str) -> int | None:
    """A finished job's exit code, negative for a signal; None where Slurm has forgotten the job."""
    done = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True)
    match = re.search(r"\bJobState=(\w+).*?\bExitCode=(\d+):(\d+)", done.stdout, re.DOTALL)
    if not match:
        return None
    code, number = int(match[2]), int(match[3])
    if code == 0 and number == 0 and match[1] not in ("COMPLETED", "COMPLETING"):
        return 1  # cancelled or never started: Slurm shows 0:0
    return -number if number else code
