"""The two ways to do a cleaning job: in a process of its own, and on the thread that asks.

Loaded with the first job: many brokers never clean anything.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from contextlib import suppress

from kbroker.log.cleaner.cleaner_worker import FRAME_LENGTH, decode_frame, encode_frame, run_job
from kbroker.log.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningDone,
    CleaningEnd,
    CleaningFailed,
    CleaningJob,
)
from kbroker.log.cleaner.pacer import CleaningAborted
from kbroker.log.disk.file_system import FileSystem
from kbroker.server.background.cleaner_threads import OnGroup

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from kbroker.log.cleaner.cleaner_worker import main; main()"
)

_log = logging.getLogger(__name__)


class ThreadWorker:
    """Cleans on the calling thread, which competes with the event loop for the interpreter."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._stopped = threading.Event()

    def clean(self, job: CleaningJob, report: OnGroup) -> CleaningEnd | None:
        """Clean here, step by step, with pauses."""
        try:
            return run_job(job, self._file_system, report, self._pause, self._stopped.is_set)
        except CleaningAborted:
            return None

    def abort(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """Nothing to give back."""

    def _pause(self, seconds: float) -> None:
        self._stopped.wait(seconds)


class ProcessWorker:
    """Cleans in its own process, which lives from the first job until `close` or `abort`."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._is_aborted = False

    def clean(self, job: CleaningJob, report: OnGroup) -> CleaningEnd | None:
        """Send the job to the process, started if need be, and report its groups."""
        child = self._child or self._start()
        try:
            assert child.stdin is not None
            child.stdin.write(encode_frame(job))
            child.stdin.flush()
            while True:
                value = self._receive(child)
                if not isinstance(value, CleanedGroup):
                    break
                report(value)
        except BrokenPipeError:
            value = None
        if isinstance(value, CleaningDone | CleaningFailed):
            return value
        code = child.wait()
        if not self._is_aborted:
            _log.warning(
                "The cleaner process ended with code %d; it will be started again later", code
            )
        return None

    def abort(self) -> None:
        """Abort the job that runs."""
        self._is_aborted = True
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """End the process by closing its input."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            with suppress(OSError):  # it does not listen any more
                pipe.close()
        child.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C at the terminal is for the broker, which ends this one.
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._child = child
        if self._is_aborted:
            child.kill()
        return child

    @staticmethod
    def _receive(child: subprocess.Popen[bytes]) -> object:
        """The next value the process sends, None at its end."""
        assert child.stdout is not None
        length = child.stdout.read(FRAME_LENGTH.size)
        if len(length) < FRAME_LENGTH.size:
            return None
        size = FRAME_LENGTH.unpack(length)[0]
        data = child.stdout.read(size)
        return decode_frame(data) if len(data) == size else None
