"""Compressed payloads of every kind are read as Apache Kafka's broker and consumer read them, or
refused where those refuse: `tests/golden/payloads.tsv` has what they say.
"""

from __future__ import annotations

import pytest

from kbroker.errors import KafkaError
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.old_messages import OldMessages
from kbroker.record.record_batch import MAGIC, plain_records
from kbroker.record.record_walk import walk_records
from tests.golden import payloads
from tests.golden.payload_cases import cases

BATCHES = dict(cases())
RECORDED = payloads.recorded()


def read(batch: bytes) -> str | None:
    """Tell the records of a batch that a producer sent, walked and then read; None: refused."""
    header = read_any_header(batch)
    try:
        if header.magic < MAGIC:
            OldMessages.wrapped(header, memoryview(batch)).walk(checks_crc=True)
        else:
            walk_records(header, plain_records(header, batch), 1_000)
        return payloads.told(any_records(batch))
    except KafkaError:
        return None


def test_each_case_has_an_answer() -> None:
    assert set(BATCHES) == set(RECORDED)


def test_both_releases_answer_alike() -> None:
    assert [name for name, (older, newer) in RECORDED.items() if older != newer] == []


def test_java_reads_whatever_its_broker_takes() -> None:
    taken = [name for name, (_, newer) in RECORDED.items() if " records " in newer.broker]

    assert [name for name in taken if not RECORDED[name][-1].is_read] == []


@pytest.mark.parametrize("name", BATCHES)
def test_a_payload_is_read_as_java_reads_it(name: str) -> None:
    newest = RECORDED[name][-1]

    assert read(BATCHES[name]) == (newest.consumer if newest.is_read else None)


@pytest.mark.parametrize("version", payloads.VERSIONS)
def test_apache_kafka_still_answers_as_recorded(version: str) -> None:
    asked = payloads.ask(version, list(BATCHES.values()))

    at = payloads.VERSIONS.index(version)
    assert dict(zip(BATCHES, asked, strict=True)) == {
        name: answers[at] for name, answers in RECORDED.items()
    }
