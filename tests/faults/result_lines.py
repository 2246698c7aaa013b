"""What a hunt says of its histories in a process of its own: the same line for the same seeds, whatever
order the process has for what Python keeps without one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 20


def result_lines(simulation: str, seeds: str) -> set[str]:
    """The result lines of two processes, without the seconds they took; `simulation` is a module of
    this package.
    """
    command = [sys.executable, "-m", f"tests.faults.{simulation}", "--seeds", seeds]
    command += ["--steps", str(STEPS)]
    return {_result_line(command, hash_seed) for hash_seed in ("1", "2")}


def _result_line(command: list[str], hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    seeds, _, counts = output.splitlines()[-1].partition(" s, ")
    return seeds.rpartition(" h in ")[0] + counts
