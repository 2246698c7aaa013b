"""What every wire test gets: a connection of its own, and which of two expectations holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from compat_tests.wire.wire_client import API_VERSIONS, WireClient

T = TypeVar("T")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "row(*numbers): rows of the table of answers of real brokers that a test holds"
    )


@pytest.fixture(scope="session")
def is_kafka(target: str, bootstrap: str) -> bool:
    """Whether Apache Kafka of the KRaft line answers; a running broker is asked."""
    if target in ("kbroker", "kafka"):
        return target == "kafka"
    with_features = WireClient(bootstrap)
    answer = with_features.call(
        API_VERSIONS, 3, client_software_name="wire", client_software_version="1"
    )
    with_features.close()
    return any(feature.name == "metadata.version" for feature in answer.finalized_features)


@pytest.fixture
def either(is_kafka: bool) -> Callable[[T, T], T]:
    """`either(kbroker's answer, Apache Kafka 4.3's answer)` where the two differ."""
    return lambda kbroker, kafka: kafka if is_kafka else kbroker


@pytest.fixture
def only_kbroker(is_kafka: bool) -> None:
    """Skips where Apache Kafka is the target: kbroker promises more here."""
    if is_kafka:
        pytest.skip("kbroker promises more than Apache Kafka here")


@pytest.fixture
def connect(bootstrap: str) -> Iterator[Callable[[], WireClient]]:
    """A factory of connections, for tests that need several."""
    opened: list[WireClient] = []

    def open_one() -> WireClient:
        opened.append(WireClient(bootstrap))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()
