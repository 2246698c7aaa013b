"""The brokers: one at an address, or one that the run starts, which scenarios may restart."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.clients.raw_connection import RawConnection
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

STARTS = ("kbroker", "kafka-3.9.2", "kafka-4.3.1")
_STOP_TIMEOUT_S = 60
_FETCH, _API_VERSIONS = 1, 18
_GROUP_VERSION = "group.version"


@dataclass
class Target:
    """A broker. `oldest_fetch`: the oldest version of Fetch that it serves; `group_version`: the level
    of that feature, from 1 on it serves the new group protocol.
    """

    name: str
    bootstrap: str
    oldest_fetch: int
    group_version: int = 0
    restart: Callable[[], None] | None = None


@contextmanager
def started(name: str) -> Iterator[Target]:
    """Start a broker of that name and stop it at the end."""
    opened = _kbroker() if name == "kbroker" else _apache_kafka(name.removeprefix("kafka-"))
    with opened as target:
        yield target


def at_address(bootstrap: str) -> Target:
    """A broker that runs already. Raises OSError where nothing listens."""
    return Target(bootstrap, bootstrap, oldest_fetch(bootstrap), group_version(bootstrap))


def oldest_fetch(bootstrap: str) -> int:
    """Ask a broker from which version on it serves Fetch. Raises OSError."""
    connection = RawConnection(bootstrap)
    answer = connection.call(_API_VERSIONS, 0)
    connection.close()
    return int(next(each.min_version for each in answer.api_keys if each.api_key == _FETCH))


def group_version(bootstrap: str) -> int:
    """Ask a broker for the level of that feature."""
    connection = RawConnection(bootstrap)
    answer = connection.call(
        _API_VERSIONS, 4, client_software_name="matrix", client_software_version="1"
    )
    connection.close()
    features = answer.finalized_features
    return next((f.max_version_level for f in features if f.name == _GROUP_VERSION), 0)


@contextmanager
def _kbroker() -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        broker = BrokerProcess(Path(folder) / "data")
        broker.start()

        def restart() -> None:
            broker.stop()
            broker.start()

        try:
            at = broker.bootstrap
            yield Target("kbroker", at, oldest_fetch(at), group_version(at), restart)
        finally:
            broker.stop()


@contextmanager
def _apache_kafka(version: str) -> Iterator[Target]:
    with apache_kafka.broker(version) as (bootstrap, first):
        running: list[subprocess.Popen[bytes]] = [first]

        def restart() -> None:
            _stop(running[-1])
            again = subprocess.Popen(
                first.args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            running.append(again)
            apache_kafka.wait_for_port(int(bootstrap.rpartition(":")[2]), again)

        try:
            name = f"Apache Kafka {version}"
            level = group_version(bootstrap)
            yield Target(name, bootstrap, oldest_fetch(bootstrap), level, restart)
        finally:
            _stop(running[-1])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
