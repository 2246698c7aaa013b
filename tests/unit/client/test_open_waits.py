"""When a reader hears that it waits at an open transaction."""

from __future__ import annotations

import pytest

from kbroker.client.fetch_troubles import OpenWaits
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse

PLACE, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)
OPEN_AT, LONG_S = 7, 5.0


def answer(stable: int = OPEN_AT, end: int = 9) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(last_stable_offset=stable, high_watermark=end)


@pytest.fixture
def waits() -> OpenWaits:
    """At an open transaction since 0 s."""
    waits = OpenWaits()
    assert not waits.is_news(PLACE, OPEN_AT, answer(), 0.0)
    return waits


def test_a_wait_is_told_once_when_it_is_long(waits: OpenWaits) -> None:
    told = [waits.is_news(PLACE, OPEN_AT, answer(), at_s) for at_s in (1.0, LONG_S, 9.0)]

    assert told == [False, True, False]


def test_a_short_transaction_is_not_told(waits: OpenWaits) -> None:
    assert not waits.is_news(PLACE, 9, answer(stable=9), 4.0)
    assert not waits.is_news(PLACE, OPEN_AT, answer(), LONG_S)


def test_the_next_transaction_has_its_own_time_and_word(waits: OpenWaits) -> None:
    waits.is_news(PLACE, OPEN_AT, answer(), LONG_S)
    told = [waits.is_news(PLACE, 8, answer(stable=8), at_s) for at_s in (6.0, 9.0, 11.0)]

    assert told == [False, False, True]


@pytest.mark.parametrize(
    ("position", "data"), [(OPEN_AT - 1, answer()), (OPEN_AT, answer(stable=-1))]
)
def test_who_has_records_to_read_does_not_wait(
    waits: OpenWaits, position: int, data: FetchResponse.PartitionData
) -> None:
    assert not waits.is_news(PLACE, position, data, LONG_S)


def test_partitions_wait_by_themselves(waits: OpenWaits) -> None:
    assert not waits.is_news(OTHER, OPEN_AT, answer(), LONG_S)
    assert waits.is_news(PLACE, OPEN_AT, answer(), LONG_S)
