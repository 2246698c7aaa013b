"""The short form of the hunt for recoveries that differ from Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.apache_kafka import ZOOKEEPER_LINE, jars
from compat_tests.prerequisites import NotAvailableError
from compat_tests.shared_zookeeper import fresh_chroot
from tests.faults.planted_bugs import gap_taken_for_damage
from tests.integration.recovery_hunt import play_round


@pytest.mark.java
def test_injured_logs_are_recovered_to_the_bytes_that_kafka_recovers(tmp_path: Path) -> None:
    try:
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))

    differences = play_round(1, tmp_path, fresh_chroot())

    assert differences == []


@pytest.mark.java
def test_records_that_go_for_a_gap_are_found(tmp_path: Path) -> None:
    try:
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))

    with gap_taken_for_damage():
        differences = play_round(1, tmp_path, fresh_chroot())

    assert any(".log after nothing" in difference for difference in differences)
