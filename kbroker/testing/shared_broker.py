"""One broker for all workers of pytest-xdist: the first that needs it starts it, and it ends with
the run.

The controller holds a named pipe open for writing, and the broker has it as standard input. So the
broker outlives the worker that started it, and ends when the controller does, however that ends.

    lifeline    the named pipe
    lock        held by the worker that looks whether there is a broker, or starts it
    bootstrap   where the broker listens, once it does
    secure      the files of the one with TLS and users, and in `access` where that listens
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kbroker.testing.broker import Broker

if TYPE_CHECKING:
    from kbroker.testing.client_settings import Access

_LIFELINE = "lifeline"
_LOCK = "lock"
_BOOTSTRAP = "bootstrap"
_SECURE, _ACCESS = "secure", "access"
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
    return _known(directory, directory / _BOOTSTRAP, lambda: _started(Broker(), directory))


def access_of_run(
    directory: Path, users: Mapping[str, str], acls: Iterable[str] | None = None
) -> Access:
    """The way in to the run's broker with TLS, these users and rules, which is started if there is
    none.
    Raises BrokerError.
    """
    from kbroker.testing.secured_broker import SecuredBroker

    files = directory / _SECURE

    def start() -> str:
        return _started(Broker(tls=True, users=users, acls=acls), directory, str(files))

    bootstrap = _known(directory, directory / _ACCESS, start)
    return SecuredBroker(files, users, has_tls=True).access(bootstrap)


def _known(directory: Path, place: Path, start: Callable[[], str]) -> str:
    """The address that a file has, or that of the broker that `start` starts."""
    import fcntl

    with (directory / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            place.write_text(start(), encoding="utf-8")
        return place.read_text(encoding="utf-8")


def _started(broker: Broker, directory: Path, files: str | None = None) -> str:
    lifeline = os.open(directory / _LIFELINE, os.O_RDONLY | os.O_NONBLOCK)  # even after the run
    try:
        os.set_blocking(lifeline, True)
        broker.start(lifeline, files)
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
