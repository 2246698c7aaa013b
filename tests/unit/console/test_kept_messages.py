"""Which messages a search keeps for its answer."""

from __future__ import annotations

import tracemalloc

import pytest

from kbroker.console.kept_messages import KeptMessages
from kbroker.console.message_form import MessageForm
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

FORM = MessageForm("t")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int, timestamp: int, value: bytes = b"v") -> Record:
    return Record(offset, timestamp, None, value, ())


def test_the_first_that_come_are_kept_in_the_order_of_time() -> None:
    kept = KeptMessages(FORM, 2, keeps_newest=False)

    kept.add(P0, record(0, 50))
    assert not kept.is_full
    kept.add(P1, record(0, 40))

    assert kept.is_full
    assert [(row.partition, row.timestamp_ms) for row in kept.rows()] == [(1, 40), (0, 50)]


@pytest.mark.parametrize("count", [3, 4, 5, 100])
def test_the_newest_are_kept_and_all_are_counted(count: int) -> None:
    kept = KeptMessages(FORM, 3, keeps_newest=True)

    for number in range(count):
        kept.add((P0, P1)[number % 2], record(number, 1_000 + number))

    assert not kept.is_full
    assert [row.offset for row in kept.rows()] == list(range(count))[-3:]
    assert kept.fitting == count


def test_messages_without_a_time_have_none() -> None:
    kept = KeptMessages(FORM, 3, keeps_newest=False)

    kept.add(P0, record(0, -1))

    assert kept.rows()[0].timestamp_ms is None


def test_headers_are_cut_whatever_there_is_of_them() -> None:
    kept = KeptMessages(FORM, 3, keeps_newest=False)
    headers = tuple(("n" * 1_000_000, b"\xff" * 1_000_000) for _ in range(100))

    kept.add(P0, record(0, 1)._replace(headers=headers))

    (row,) = kept.rows()
    assert len(row.headers) == 50
    assert all(value.is_cut and value.size_bytes == 1_000_000 for _, value in row.headers)
    letters = sum(len(name) + len(value.text) for name, value in row.headers)
    assert letters < 50_000
    assert len(row.headers[0][1].text) == 2_048


def test_names_of_headers_may_be_any_bytes() -> None:
    kept = KeptMessages(FORM, 3, keeps_newest=False)

    kept.add(P0, record(0, 1)._replace(headers=(("a\udcff", b"\xff"),)))

    ((name, value),) = kept.rows()[0].headers
    assert (name, value.text) == (r"a\xff", "ff")


def test_large_messages_take_no_memory() -> None:
    kept = KeptMessages(FORM, 50, keeps_newest=True)
    tracemalloc.start()

    for number in range(200):
        kept.add(P0, record(number, number, b"x" * 1_000_000))
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held_bytes < 2_000_000
    assert [row.value.is_cut for row in kept.rows()] == [True] * 50
