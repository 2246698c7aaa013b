"""Clients that come in by TLS, by certificates and by logins, as their users do. `python -m
compat_tests.clients.secured_clients` has those of Go too, and all in each way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.secured_clients import (
    JAVA,
    OF_PYTHON,
    PROGRAMS,
    Use,
    Way,
    secured_broker,
    use_by_java,
)


@pytest.fixture(scope="module")
def ways(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Way]]:
    if target != "kbroker":
        pytest.skip("starts a kbroker with users of its own")
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.mark.parametrize("use", [*OF_PYTHON, *PROGRAMS])
def test_clients_come_in_each_way(ways: list[Way], use: Use) -> None:
    for way in ways if use in OF_PYTHON else ways[1::4]:
        assert use(way, way.topic(use.__name__)) == way.is_right, way


@pytest.mark.java
@pytest.mark.parametrize("version", [JAVA[0], JAVA[-1]])
def test_java_clients_come_in_each_way(ways: list[Way], version: str, tmp_path: Path) -> None:
    topics = [way.topic(f"java-{version}") for way in ways]

    assert use_by_java(ways, version, tmp_path) == topics
