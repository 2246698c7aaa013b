"""The pytest plugin: `kafka_bootstrap`, the address of a broker, and a topic (`kafka_topic`) and a
consumer group (`kafka_group`) of the test's own; `kafka_secure`, the way in to a broker with TLS
and users.

Law: a session that uses neither pays nothing: what costs time is imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kbroker.testing.client_settings import Access

_WORKER_KEY = "kbroker_run_directory"  # in what the controller of pytest-xdist tells its workers
_DIRECTORY = "kbroker"
_RUN = pytest.StashKey[Any]()


@pytest.fixture(scope="session")
def kafka_bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """HOST:PORT of a Kafka broker for the whole run, which pytest-xdist's workers share."""
    from kbroker.testing.broker import Broker, BrokerError
    from kbroker.testing.shared_broker import bootstrap_of_run

    shared = _shared_directory(request.config)
    try:
        if shared is not None:
            yield bootstrap_of_run(shared)
        else:
            with Broker() as broker:
                yield broker.bootstrap
    except BrokerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def kafka_secure_users() -> dict[str, str]:
    """Passwords of the users of `kafka_secure`, by name; a conftest.py may define others."""
    return {"ann": "secret of ann", "bob": "secret of bob"}


@pytest.fixture(scope="session")
def kafka_secure_acls() -> list[str] | None:
    """Rules for the users of `kafka_secure`, in the words of `kbroker acl`; None: they may do
    everything. A conftest.py may define others.
    """
    return None


@pytest.fixture(scope="session")
def kafka_secure(
    request: pytest.FixtureRequest,
    kafka_secure_users: dict[str, str],
    kafka_secure_acls: list[str] | None,
) -> Iterator[Access]:
    """The way in to a broker with TLS and users, for the whole run and all its workers:
    `bootstrap`, the file `ca`, and `client("ann", "confluent-kafka")`, settings ready to use.
    """
    from kbroker.testing.broker import Broker, BrokerError
    from kbroker.testing.shared_broker import access_of_run

    shared = _shared_directory(request.config)
    try:
        if shared is not None:
            yield access_of_run(shared, kafka_secure_users, kafka_secure_acls)
        else:
            with Broker(tls=True, users=kafka_secure_users, acls=kafka_secure_acls) as broker:
                yield broker.access
    except BrokerError as error:
        pytest.fail(str(error), pytrace=False)


def _shared_directory(config: pytest.Config) -> Path | None:
    """The directory of what the workers of pytest-xdist share; None without them."""
    named = getattr(config, "workerinput", {}).get(_WORKER_KEY)
    if named is None or not Path(named).exists():  # as on another machine
        return None
    return Path(named)


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_bootstrap: str) -> str:
    """Name of a new, empty topic with the broker's default settings, made from the test's name."""
    from kbroker.testing.fresh_topic import create_topic, fresh_name

    name = fresh_name(request.node.name)
    create_topic(kafka_bootstrap, name)
    return name


@pytest.fixture
def kafka_group(request: pytest.FixtureRequest) -> str:
    """Id of a new consumer group, made from the test's name: no other test's consumers join it."""
    from kbroker.testing.fresh_topic import fresh_name

    return fresh_name(request.node.name)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the controller of pytest-xdist: prepare what its workers share."""
    factory = getattr(node.config, "_tmp_path_factory", None)  # where xdist itself has it from
    if factory is None or not hasattr(os, "mkfifo"):
        return  # each worker has a broker of its own
    from kbroker.testing.shared_broker import Run

    run = node.config.stash.setdefault(_RUN, None)
    if run is None:
        run = node.config.stash[_RUN] = Run(factory.getbasetemp() / _DIRECTORY)
    node.workerinput[_WORKER_KEY] = str(run.directory)


@pytest.hookimpl
def pytest_unconfigure(config: pytest.Config) -> None:
    """In the controller of pytest-xdist: stop what its workers shared."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.end()
