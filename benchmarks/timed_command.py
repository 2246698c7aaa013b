"""A command as a process of its own: how long it takes, its CPU and its memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_KIB_PER_MIB = 1024
_LOOK_S = 0.01
_NOTHING = Path(os.devnull)


@dataclass(frozen=True, slots=True)
class Took:
    """What a command took, its start included; `cpu_s` counts the processes it has waited for."""

    seconds: float
    cpu_s: float
    peak_mib: float  # of resident memory


def timed_command(command: Sequence[str], source: Path = _NOTHING, target: Path = _NOTHING) -> Took:
    """Run a command to its end, from one file to another one. RuntimeError where it fails."""
    with (
        source.open("rb") as stdin,
        target.open("wb") as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        begun_s = time.perf_counter()
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr)
        peak_kib = 0
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            peak_kib = _peak_kib(process.pid) or peak_kib
            time.sleep(_LOOK_S)
        took_s = time.perf_counter() - begun_s
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            stderr.seek(0)
            said = stderr.read().decode(errors="replace")[-600:]
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return Took(took_s, used.ru_utime + used.ru_stime, peak_kib / _KIB_PER_MIB)


def _peak_kib(pid: int) -> int:
    """The most resident memory so far, 0 at the end. (That of `wait4` counts this process too, of
    which the other was a copy at first.)
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
