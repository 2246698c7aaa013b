"""A program written with a framework, as a process: started, stopped, killed, started again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

STOP_TIMEOUT_S = 40


@dataclass(kw_only=True)
class Worker:
    """A command that runs until it is told to end; what it says goes to `log`."""

    command: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                env={**os.environ, **self.environment},
                start_new_session=True,  # its children end with it
            )

    def stop(self) -> None:
        """Ask it to end, as a supervisor does, and wait until it has."""
        assert self.process is not None
        assert self.process.poll() is None, f"it ended by itself:\n{self.said()[-4_000:]}"
        self.process.terminate()
        self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once, with the processes it started."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def said(self) -> str:
        """All that it said in all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""
