"""`kbroker pipeline archive ... --once` as a process, and ways to kill it: all of it, the Python
driver alone, the Java machine alone, or after it was asked to stop.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from compat_tests.pipeline.published_archive import manifest_names

_STARTED = 19  # field of /proc/PID/stat after the name: when it was started
_PAUSE_S = 0.005
_LOOK_S = 0.5
_END_S = 120  # until a driver whose Java machine is gone has said so


@dataclass(frozen=True)
class ArchiveCommand:
    """What is run: the source's options, and where archive and checkpoint are."""

    source: tuple[str, ...]
    topics: tuple[str, ...]
    home: Path
    batch_records: int

    @property
    def archive(self) -> Path:
        """The archive's directory."""
        return self.home / "archive"

    def start(self) -> ArchiveProcess:
        """Start a run, which goes on where the last one ended."""
        command = [
            sys.executable, "-m", "kbroker.cli", "pipeline", "archive", *self.source,
            "--topics", ",".join(self.topics), "--to", str(self.archive),
            "--checkpoint", str(self.home / "checkpoint"), "--once",
            "--batch-records", str(self.batch_records), "--master", "local[2]",
            "--spark-conf", "spark.driver.memory=1g",
            "--spark-conf", f"spark.local.dir={self.home / 'spark'}",
        ]  # fmt: skip
        return ArchiveProcess(command, self)


class ArchiveProcess:
    """One run of the command."""

    def __init__(self, command: list[str], what: ArchiveCommand) -> None:
        self._what = what
        self._log = what.home / "archive.log"
        self._begun = len(self._log.read_bytes()) if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, cwd=what.home
            )
        self._family: dict[int, str] = {}  # every process of the run seen so far, with its start

    def wait(self, timeout_s: float) -> int:
        """Its exit code when it has ended by itself."""
        return self._process.wait(timeout_s)

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def said(self) -> str:
        """Return what this run has printed so far."""
        return self._log.read_bytes()[self._begun :].decode(errors="replace")

    def wait_until(self, happened: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it happened before the run ended and the time was over."""
        deadline = time.monotonic() + timeout_s
        next_look = 0.0
        while (now := time.monotonic()) < deadline and not self.has_ended():
            if now >= next_look:
                self.look()
                next_look = now + _LOOK_S
            if happened():
                return True
            time.sleep(_PAUSE_S)
        return False

    def look(self) -> None:
        """Note which processes belong to the run: children of one that is killed are nobody's."""
        self._family.update(_family_of(self._process.pid))

    def ask_to_stop(self) -> None:
        """SIGTERM for the driver."""
        self._process.send_signal(signal.SIGTERM)

    def kill_all(self) -> None:
        """SIGKILL for the driver, the Java machine and the workers at once."""
        self.look()
        for pid in self._alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(30)

    def kill_driver(self) -> None:
        """SIGKILL for the driver alone; the Java machine sees it and ends, when it gets to it."""
        self.look()
        self._process.kill()
        self._process.wait(30)

    def kill_java(self) -> int | None:
        """SIGKILL for the Java machine alone: the driver's exit code, None where none ran yet."""
        self.look()
        machines = [pid for pid in self._alive() if _name_of(pid) == "java"]
        if not machines:
            self.kill_all()
            return None
        for pid in machines:
            os.kill(pid, signal.SIGKILL)
        return self._process.wait(_END_S)

    def leftovers(self, patience_s: float) -> list[str]:
        """Names of processes of the run that do not end; they are killed."""
        deadline = time.monotonic() + patience_s
        while (alive := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        names = [_name_of(pid) for pid in alive]
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return names

    def _alive(self) -> list[int]:
        return [pid for pid, start in self._family.items() if _start_of(pid) == start]


def random_kill(run: ArchiveProcess, what: ArchiveCommand, draw: random.Random) -> str:
    """Kill the run at a drawn moment in a drawn way; what was done, or how the run ended before."""
    moment = draw.choice(("start", "batch", "batch", "publish", "publish", "stop"))
    if not _await_moment(moment, run, what, draw):
        return f"{moment}: it had ended with {run.wait(_END_S)}"
    way = draw.choice(("all", "all", "driver", "java"))
    if way == "driver":
        run.kill_driver()
    elif way == "java":
        code = run.kill_java()
        assert "Traceback" not in run.said(), run.said()[-3000:]
        assert code != 0 or moment == "stop", run.said()[-3000:]
        way = f"java, the driver ended with {code}"
    else:
        run.kill_all()
    return f"{moment}: killed {way}"


def _await_moment(
    moment: str, run: ArchiveProcess, what: ArchiveCommand, draw: random.Random
) -> bool:
    """Whether the moment came while the process ran."""
    if moment == "start":
        return not run.wait_until(lambda: False, draw.uniform(0.1, 9)) and not run.has_ended()
    before = len(manifest_names(what.archive))
    if moment == "publish":
        staging = what.archive / "staging"
        if not run.wait_until(lambda: any(staging.glob("*/targets")), 120):
            return False
        run.wait_until(lambda: False, draw.choice((0, 0.002, 0.01, 0.03)))
        return not run.has_ended()
    if not run.wait_until(lambda: len(manifest_names(what.archive)) > before, 120):
        return False
    if moment == "stop":
        run.ask_to_stop()
    run.wait_until(lambda: False, draw.uniform(0, 2.5))
    return not run.has_ended()


def _family_of(root: int) -> dict[int, str]:
    """A process and all below it, with the times they were started."""
    stats = {pid: _stat(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
    alive = {pid: stat for pid, stat in stats.items() if stat}
    found = {root} & alive.keys()
    while more := {pid for pid, stat in alive.items() if int(stat[1]) in found} - found:
        found |= more
    return {pid: alive[pid][_STARTED] for pid in found}


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _start_of(pid: int) -> str:
    """When a process was started; "" for one that has ended."""
    stat = _stat(pid)
    return stat[_STARTED] if stat and stat[0] != "Z" else ""


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process that has just ended"
