"""One broker for all workers of pytest-xdist: the first that needs it starts it, and it ends with
the run.

The controller holds a named pipe open for writing, and the broker has it as standard input. So the
broker outlives the worker that started it, and ends when the controller does, however that ends.

    lifeline    the named pipe
    lock        held by the worker that looks whether there is a broker, or starts it
    bootstrap   where the broker listens, once it does
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

from kbroker.testing.broker import Broker

_LIFELINE = "lifeline"
_LOCK = "lock"
_BOOTSTRAP = "bootstrap"
_STOP_TIMEOUT_S = 30
_PAUSE_S = 0.01


class Run:
    """The broker that the controller holds while its workers run tests."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        os.mkfifo(directory / _LIFELINE)
        self.directory = directory
        # A pipe without a reader cannot be opened for writing without waiting.
        reader = os.open(directory / _LIFELINE, os.O_RDONLY | os.O_NONBLOCK)
        self._writer = os.open(directory / _LIFELINE, os.O_WRONLY)
        os.close(reader)

    def end(self) -> None:
        """Stop the broker, if there is one, and return when it is gone."""
        os.close(self._writer)
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        while _has_reader(self.directory / _LIFELINE) and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
        shutil.rmtree(self.directory, ignore_errors=True)


def bootstrap_of_run(directory: Path) -> str:
    """Where the run's broker listens; it is started when there is none. Raises BrokerError."""
    import fcntl

    address = directory / _BOOTSTRAP
    with (directory / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            address.write_text(_started(directory), encoding="utf-8")
        return address.read_text(encoding="utf-8")


def _started(directory: Path) -> str:
    broker = Broker()
    lifeline = os.open(directory / _LIFELINE, os.O_RDONLY | os.O_NONBLOCK)  # even after the run
    try:
        os.set_blocking(lifeline, True)
        broker.start(lifeline)
    finally:
        os.close(lifeline)
    bootstrap = broker.bootstrap
    broker.leave()
    return bootstrap


def _has_reader(pipe: Path) -> bool:
    """True while a process reads from it: the broker's own end closes the pipe."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except FileNotFoundError:
        return (
            False  # pytest has tidied up (tmp_path_retention_policy); the broker ends all the same
        )
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        raise
    return True
