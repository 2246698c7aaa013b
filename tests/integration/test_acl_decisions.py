"""The short form of `python -m tests.integration.acl_decisions`."""

from __future__ import annotations

import pytest

from compat_tests.running.apache_kafka import ZOOKEEPER_LINE
from compat_tests.running.prerequisites import NotAvailableError
from tests.integration.acl_decisions import differences, rounds


@pytest.mark.java
def test_rules_allow_what_apache_kafkas_authorizer_allows() -> None:
    played = list(rounds(seed=99, decisions=4_000))

    try:
        found = differences(ZOOKEEPER_LINE, played, is_open=False)
    except NotAvailableError as error:
        pytest.skip(str(error))
    assert found == []
