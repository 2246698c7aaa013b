"""The short form of the hunt for recoveries that differ from Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.apache_directories import zookeeper
from compat_tests.apache_kafka import ZOOKEEPER_LINE, NotAvailableError, jars
from tests.integration.recovery_hunt import play_round


@pytest.mark.java
def test_injured_logs_are_recovered_to_the_bytes_that_kafka_recovers(tmp_path: Path) -> None:
    try:
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))

    with zookeeper() as connect:
        differences = play_round(1, tmp_path, connect)

    assert differences == []
