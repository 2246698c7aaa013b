"""Clients that come in by TLS, by certificates and by logins, as their users do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.go_clients import BUILD_TIMEOUT_S
from compat_tests.clients.secured_clients import (
    JAVA,
    OF_PYTHON,
    PROGRAMS,
    Use,
    Way,
    secured_broker,
    use_by_java,
    wrong,
)


@pytest.fixture(scope="module")
def ways(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Way]]:
    if target != "kbroker":
        pytest.skip("starts a kbroker with users of its own")
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize("use", [*OF_PYTHON, *PROGRAMS])
def test_clients_come_in_each_way(ways: list[Way], use: Use) -> None:
    assert wrong(use, ways) == []


@pytest.mark.java
@pytest.mark.parametrize("version", JAVA)
def test_java_clients_come_in_each_way(ways: list[Way], version: str, tmp_path: Path) -> None:
    topics = [way.topic(f"java-{version}") for way in ways]

    assert use_by_java(ways, version, tmp_path) == topics
