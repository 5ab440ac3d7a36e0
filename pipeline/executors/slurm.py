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
NO_ANSWER = "NO_ANSWER"  # in place of a job's state
OVER = {"", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
OVER |= {"PREEMPTED", "REVOKED"}


class SlurmExecutor:
    """Runs the stages of `profile` as jobs of slurm/*.sh; hold the lock of `run_dir` while using this."""

    def __init__(
        self, run_dir: RunDir, profile: Profile, python: str = sys.executable, scripts: Path = SCRIPTS
    ) -> None:
        if shutil.which("sbatch") is None:
            raise UsageError("--executor slurm: no sbatch on PATH; install slurm-wlm, or use --executor local")
        if not scripts.is_dir():  # an installed wheel has none
            raise UsageError(f"--executor slurm: no folder {scripts}; run this from a checkout of the repository")
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
        command = sbatch_command(stage, self.profile, self.run_dir, after, self.scripts)
        self.run_dir.log(stage.name).parent.mkdir(exist_ok=True)
        environment = os.environ | {
            "MATHMILL_HOME": str(REPOSITORY),
            "RUN_DIR": str(self.run_dir.path.resolve()),
            "PROFILE": str(self.run_dir.path.resolve() / "profile.yaml"),
            "PYTHON": self.python,
        }
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            queued = f"; `scancel {' '.join(after)}` takes back what it waits for" if after else ""
            raise UsageError(f"{stage.name}: sbatch refused the job: {' '.join(done.stderr.split())}{queued}")
        job = done.stdout.strip().partition(";")[0]
        attempt = Attempt(stage.fingerprint, platform.node(), time.time(), job=job)
        self.run_dir.write_attempt(stage.name, attempt)
        print(f"{stage.name}: job {job} submitted{' after ' + ', '.join(after) if after else ''}", flush=True)
        return job

    def _wait(self, stage: PlannedStage, job: str, title: str) -> int:
        print(f"{title}: job {job}, log {self.run_dir.log(stage.name)}", flush=True)
        began, said = time.monotonic(), ""
        with Display(stage.name) as display:
            while (state := job_state(job)) is not None:
                if state != said and state != "COMPLETING":
                    words = state.lower().replace("_", " ")
                    print(f"{title}: {words} after {duration(time.monotonic() - began)}", flush=True)
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


def sbatch_command(
    stage: PlannedStage, profile: Profile, run_dir: RunDir, after: list[str], scripts: Path = SCRIPTS
) -> list[str]:
    """The sbatch line that submits `stage` to start once the jobs `after` have succeeded."""
    slurm = profile.slurm.of(stage.name)  # type: ignore[arg-type]
    options = {
        "--job-name": f"{profile.name}-{stage.name}",
        "--partition": slurm.partition,
        "--account": slurm.account,
        "--time": slurm.time,
        "--nodes": stage.nnodes,
        "--gpus-per-node": slurm.gpus_per_node,
        "--output": run_dir.log(stage.name).resolve(),
        "--open-mode": "append",
        "--chdir": os.getcwd(),
        "--dependency": f"afterok:{':'.join(after)}" if after else None,
        "--kill-on-invalid-dep": "yes",
        "--export": "ALL",
    }
    said = [f"{key}={value}" for key, value in options.items() if value is not None]
    return ["sbatch", "--parsable", *said, *slurm.sbatch_args, str(scripts / stage.spec.script)]


def job_state(job: str) -> str | None:
    """PENDING, RUNNING, COMPLETING … while a job is queued or runs, None once it is over; NO_ANSWER from Slurm."""
    command = ["squeue", "--noheader", "--jobs", job, "--format", "%T"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:  # a run directory brought here from a cluster
        return NO_ANSWER
    if done.returncode:
        return None if "Invalid job id" in done.stderr else NO_ANSWER
    return None if done.stdout.strip() in OVER else done.stdout.strip()


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
