"""The short form of the hunt for recoveries that differ from Apache Kafka's."""

from __future__ import annotations

import pytest

from compat_tests.running.apache_kafka import ZOOKEEPER_LINE, jars
from compat_tests.running.prerequisites import NotAvailableError
from tests.faults.planted_bugs import gap_taken_for_damage
from tests.integration.recovery_hunt import Injured, injured_directory

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Injured:
    try:
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))
    return injured_directory(1, tmp_path_factory.mktemp("hunt"))


def test_injured_logs_are_recovered_to_the_bytes_that_kafka_recovers(directory: Injured) -> None:
    assert directory.differences() == []


def test_records_that_go_for_a_gap_are_found(directory: Injured) -> None:
    with gap_taken_for_damage():
        differences = directory.differences()

    assert any(".log after nothing" in difference for difference in differences)
