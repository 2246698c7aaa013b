"""Clients of all languages say of rights, quotas, users and tokens here what they say at Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.answers.authorized import Authorized, kbroker
from compat_tests.clients.go_clients import BUILD_TIMEOUT_S
from compat_tests.clients.rights_clients import CLIENTS, WITH_TOKENS, said, unexplained


@pytest.fixture(scope="module")
def broker(target: str) -> Iterator[Authorized]:
    if target != "kbroker":
        pytest.skip("starts a kbroker with an authorizer")
    with kbroker(WITH_TOKENS) as running:
        yield running


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_says_what_it_says_at_apache_kafka(broker: Authorized, client: str) -> None:
    assert unexplained(client, said(broker, client)) == []
