"""Idempotent producers: ids, sequences, epochs and duplicates."""

from __future__ import annotations

import pytest

from compat_tests.wire.record_bytes import ONE, Batch
from compat_tests.wire.wire_client import (
    INIT_PRODUCER_ID,
    REFUSED_BY_LOG,
    WireClient,
    code,
    stored_at,
)

OUT_OF_ORDER = f"45 OUT_OF_ORDER_SEQUENCE_NUMBER; {REFUSED_BY_LOG}"


class Producer:
    """Writes numbered batches to a topic of its own."""

    def __init__(self, wire: WireClient) -> None:
        self._wire = wire
        self._topic = wire.create_topic()
        self._id = new_producer_id(wire)

    def send(
        self, sequence: int, count: int = 1, epoch: int = 0, producer_id: int | None = None
    ) -> str:
        """Produce a batch; the answer as text."""
        records = Batch(
            pairs=ONE * count,
            producer_id=self._id if producer_id is None else producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return self._wire.produce(self._topic, records.to_bytes(), 8)

    def end_offset(self) -> int:
        """The end of the partition."""
        return int(self._wire.fetch(self._topic, 0).high_watermark)


def new_producer_id(wire: WireClient) -> int:
    """A producer id; a broker that has just started may say first that it is still loading."""
    for _ in range(100):
        answer = wire.call(INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout=60_000)
        if answer.error_code.value != 14:
            break
    assert (code(answer.error_code), answer.producer_epoch) == ("0", 0)
    return int(answer.producer_id)


@pytest.fixture
def producer(wire: WireClient) -> Producer:
    return Producer(wire)


@pytest.mark.row(59)
def test_a_duplicate_is_answered_with_its_offset_and_not_stored_again(producer: Producer) -> None:
    answers = [producer.send(0, 2), producer.send(2, 2), producer.send(0, 2)]
    duplicate = "0; base_offset=0; log_append_time=set; log_start=0"
    assert answers == [stored_at(0), stored_at(2), duplicate]
    assert producer.end_offset() == 4


@pytest.mark.row(60)
def test_a_duplicate_older_than_the_five_kept_batches_is_out_of_order(producer: Producer) -> None:
    assert [producer.send(sequence) for sequence in range(7)] == [stored_at(n) for n in range(7)]
    assert producer.send(0) == OUT_OF_ORDER


@pytest.mark.row(61)
def test_an_overlapping_range_of_sequences_is_out_of_order(producer: Producer) -> None:
    assert producer.send(0, 2) == stored_at(0)
    assert producer.send(1, 2) == OUT_OF_ORDER


@pytest.mark.row(62)
def test_a_gap_in_the_sequences_is_out_of_order(producer: Producer) -> None:
    assert producer.send(0) == stored_at(0)
    assert producer.send(5) == OUT_OF_ORDER
    assert producer.send(1) == stored_at(1)


@pytest.mark.row(63)
def test_the_first_batch_of_a_producer_may_begin_anywhere(producer: Producer) -> None:
    assert producer.send(7) == stored_at(0)


@pytest.mark.row(64)
def test_an_older_epoch_is_fenced(producer: Producer) -> None:
    assert producer.send(0, epoch=3) == stored_at(0)
    assert producer.send(0, epoch=2) == f"47 INVALID_PRODUCER_EPOCH; {REFUSED_BY_LOG}"


@pytest.mark.row(65)
def test_a_new_epoch_begins_at_sequence_0(producer: Producer) -> None:
    assert producer.send(0, epoch=0) == stored_at(0)
    assert producer.send(5, epoch=1) == OUT_OF_ORDER
    assert producer.send(0, epoch=1) == stored_at(1)


@pytest.mark.row(66)
def test_sequences_wrap_around_within_a_batch(producer: Producer) -> None:
    assert producer.send(2147483646, 4) == stored_at(0)
    assert producer.send(2) == stored_at(4)


@pytest.mark.row(67)
def test_a_producer_id_without_a_sequence_is_refused(producer: Producer) -> None:
    assert producer.send(-1) == f"87 INVALID_RECORD; {REFUSED_BY_LOG}"


@pytest.mark.row(68)
def test_a_producer_id_that_was_never_given_out_is_accepted(producer: Producer) -> None:
    assert producer.send(0, producer_id=123456789) == stored_at(0)


@pytest.mark.row(69)
def test_producer_ids_come_one_after_the_other(wire: WireClient) -> None:
    first = new_producer_id(wire)
    assert new_producer_id(wire) - first == 1


@pytest.mark.row(72)
def test_an_empty_transactional_id_is_refused(wire: WireClient) -> None:
    answer = wire.call(INIT_PRODUCER_ID, 1, transactional_id="", transaction_timeout=60_000)
    assert code(answer.error_code) == "42 INVALID_REQUEST"
    assert answer.producer_id == -1


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, stored_at(0)),
        (-2, f"47 INVALID_PRODUCER_EPOCH; {REFUSED_BY_LOG}"),
    ],
)
def test_an_epoch_below_that_of_no_producer_is_none(
    producer: Producer, epoch: int, answer: str
) -> None:
    assert producer.send(0, epoch=epoch) == answer
