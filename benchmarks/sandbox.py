"""Programs a second of the sandbox, beside an interpreter started for each program, in turn, in one run.

    python benchmarks/sandbox.py [--programs 400] [--rounds 3] [--workers 2]

The programs are small: arithmetic as in GSM8K solutions, and a second set in which every program needs sympy. The peer
is `subprocess.run([python, "-I", "-c", code])` from as many threads as there are workers; it contains nothing.
CPU time counts this process, the workers and the programs; it depends less on what else the machine does.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil

from evals.sandbox import Sandbox

ARITHMETIC = """def solution():
    pens = {n}
    price = 3
    return pens * price - 2
print(solution())
"""
SYMPY = """from sympy import symbols, Eq, solve
x, y = symbols('x y')
solution = solve((Eq(x + y, {n}), Eq(x - y, 1)), (x, y))
print(solution[x])
"""
Run = Callable[[str], object]


def in_interpreter(code: str) -> object:
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True, timeout=60)


def cpu_seconds() -> float:
    """CPU time so far of this process, the living below it and all that these have waited for."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(p.cpu_times()[:4]) for p in processes)


def seconds_each(run: Run, codes: list[str], workers: int) -> tuple[float, list[float]]:
    """Wall seconds for all, and the seconds of each from its start to its result."""

    def timed(code: str) -> float:
        began = time.perf_counter()
        run(code)
        return time.perf_counter() - began

    with ThreadPoolExecutor(workers) as threads:
        began = time.perf_counter()
        each = list(threads.map(timed, codes))
        return time.perf_counter() - began, each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("programs", 400), ("rounds", 3), ("workers", os.cpu_count() or 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    with Sandbox(workers=args.workers) as sandbox:
        print(f"{args.workers} workers; sandbox: {'; '.join(sandbox.strength())}")
        print(f"{'programs':<12}{'where':<14}{'a second':>10}{'median ms':>11}{'p99 ms':>9}{'CPU ms':>9}")
        for name, template in (("arithmetic", ARITHMETIC), ("sympy", SYMPY)):
            ways: dict[str, tuple[Run, int]] = {
                "sandbox": (sandbox.run, args.programs),
                "interpreter": (in_interpreter, max(args.workers, args.programs // 20)),
            }
            rates: dict[str, list[float]] = {way: [] for way in ways}
            times: dict[str, list[float]] = {way: [] for way in ways}
            cpu = dict.fromkeys(ways, 0.0)
            for _ in range(args.rounds):
                for way, (run, count) in ways.items():
                    before = cpu_seconds()
                    wall, each = seconds_each(run, [template.format(n=n) for n in range(count)], args.workers)
                    rates[way].append(count / wall)
                    times[way] += each
                    cpu[way] += cpu_seconds() - before
            for way in ways:
                ordered = sorted(times[way])
                p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
                print(
                    f"{name:<12}{way:<14}{statistics.median(rates[way]):>10.1f}"
                    f"{1000 * statistics.median(ordered):>11.1f}{1000 * p99:>9.1f}"
                    f"{1000 * cpu[way] / len(ordered):>9.1f}"
                )
            ratio = statistics.median(rates["sandbox"]) / statistics.median(rates["interpreter"])
            print(f"{name:<12}{'ratio':<14}{ratio:>9.1f}x")


if __name__ == "__main__":
    main()
