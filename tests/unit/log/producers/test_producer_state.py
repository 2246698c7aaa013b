"""Idempotence and transactions of one partition: duplicates, gaps, epochs, markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.producers.producer_state import (
    CompletedTxn,
    ProducerStateManager,
    advance_sequence,
)
from kbroker.log.producers.verification import TransactionalBatch, VerificationState
from kbroker.model import NO_SEQUENCE, TopicPartition
from kbroker.record.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ControlRecord,
)

MAX_INT = 2**31 - 1
NOW_MS = 1_000


def header(
    sequence: int, *, count: int = 1, epoch: int = 0, pid: int = 7, flags: int = 0
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=flags,
        last_offset_delta=count - 1,
        base_timestamp=1000,
        max_timestamp=1000,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def written_by(batch: BatchHeader) -> TransactionalBatch:
    return TransactionalBatch(batch.producer_id, batch.producer_epoch, batch.base_sequence)


class Partition:
    """A log's end and its producers, without the log."""

    def __init__(self) -> None:
        self.producers = ProducerStateManager(TopicPartition("t", 0))
        self.end_offset = 0

    def ask(self, batch: BatchHeader) -> VerificationState | None:
        """Where the coordinator's answer is to be noted."""
        return self.producers.begin_verification(written_by(batch), NOW_MS)

    def produce(self, batch: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        """With the coordinator's consent, where one is needed."""
        if batch.is_transactional and (state := self.ask(batch)) is not None:
            state.verify(batch.producer_epoch)
        return self.append(batch, origin)

    def append(self, batch: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        self.producers.validate(batch, self.end_offset, origin)
        first = self.end_offset
        self.end_offset += batch.record_count
        self.producers.update(batch, first, self.end_offset - 1, batch.max_timestamp)
        return first

    def end(
        self, *, commit: bool, epoch: int = 0, pid: int = 7, coordinator_epoch: int = 0
    ) -> CompletedTxn | None:
        marker = ControlRecord(commit, coordinator_epoch)
        batch = header(-1, epoch=epoch, pid=pid, flags=CONTROL_BIT | TRANSACTIONAL_BIT)
        self.producers.validate(batch, self.end_offset, AppendOrigin.COORDINATOR, marker)
        completed = self.producers.end_transaction(batch, marker, self.end_offset, 2000)
        self.end_offset += 1
        return completed


def refused(partition: Partition, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        partition.produce(batch)
    return caught.value.code


def test_the_last_five_batches_are_recognised_again() -> None:
    partition = Partition()
    for sequence in range(0, 14, 2):
        partition.produce(header(sequence, count=2))

    found = [partition.producers.find_duplicate(header(s, count=2)) for s in range(0, 14, 2)]

    assert [batch and batch.first_offset for batch in found] == [None, None, 4, 6, 8, 10, 12]


def test_a_batch_with_the_same_start_and_another_end_is_no_duplicate() -> None:
    partition = Partition()
    partition.produce(header(0, count=2))

    assert partition.producers.find_duplicate(header(0, count=3)) is None


def test_a_batch_of_another_epoch_is_no_duplicate() -> None:
    partition = Partition()
    partition.produce(header(0, count=2))

    assert partition.producers.find_duplicate(header(0, count=2, epoch=1)) is None


@pytest.mark.parametrize("sequence", [0, 1, 3, 5])
def test_a_sequence_that_does_not_follow_is_out_of_order(sequence: int) -> None:
    partition = Partition()
    partition.produce(header(0, count=2))

    code = refused(partition, header(sequence, count=2))

    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    partition = Partition()

    assert partition.produce(header(7)) == 0


def test_batches_before_a_break_in_the_sequences_are_no_duplicates_of_those_after_it() -> None:
    partition = Partition()
    partition.produce(header(0))
    partition.produce(header(1))
    partition.produce(header(0), AppendOrigin.REPLICATION)  # the producer had been forgotten
    duplicate = partition.producers.find_duplicate(header(0))
    assert duplicate is not None
    assert duplicate.first_offset == 2
    assert partition.producers.find_duplicate(header(1)) is None
    assert partition.produce(header(1)) == 3


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 4), st.sampled_from((0, 0, 0, 1)))
        | st.sampled_from(("marker", "forgotten", "snapshot")),
        max_size=40,
    )
)
def test_whatever_was_written_the_next_batch_is_no_duplicate_and_the_last_one_is_itself(
    steps: list[tuple[int, int, int] | str],
) -> None:
    partition = Partition()
    producers = partition.producers
    for step in steps:
        if step == "marker":
            partition.end(commit=True, epoch=1, coordinator_epoch=MAX_INT)
        elif step == "forgotten":
            producers.clear(partition.end_offset)
        elif step == "snapshot":  # holds one batch of each
            for entry in producers.producers.values():
                del entry.batches[:-1]
        elif not isinstance(step, str):
            sequence, count, epoch = step
            batch = header(sequence, count=count, epoch=epoch)
            first = partition.produce(batch, AppendOrigin.REPLICATION)
            found = producers.find_duplicate(batch)
            assert found is not None
            assert found.first_offset == first
            following = header(sequence + count, count=count, epoch=epoch)
            assert producers.find_duplicate(following) is None


def test_sequences_wrap_to_zero_between_batches() -> None:
    partition = Partition()
    partition.produce(header(MAX_INT - 1, count=2))

    assert partition.produce(header(0, count=3)) == 2


def test_sequences_wrap_to_zero_inside_a_batch() -> None:
    partition = Partition()
    partition.produce(header(MAX_INT, count=3))

    assert partition.produce(header(2)) == 3
    assert partition.producers.find_duplicate(header(MAX_INT, count=3)) is not None


def test_an_older_epoch_is_refused() -> None:
    partition = Partition()
    partition.produce(header(0, epoch=3))

    assert refused(partition, header(0, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("epoch", [-2, -(2**15)])
def test_an_epoch_below_that_of_no_producer_is_refused_of_an_unknown_one(epoch: int) -> None:
    with pytest.raises(KafkaError, match="smaller than the last seen epoch -1") as refusal:
        Partition().produce(header(0, epoch=epoch))

    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert Partition().produce(header(0, epoch=-1)) == 0
    assert Partition().produce(header(0, epoch=epoch), AppendOrigin.REPLICATION) == 0


def test_a_new_epoch_starts_at_sequence_zero() -> None:
    partition = Partition()
    partition.produce(header(0, epoch=0))

    assert refused(partition, header(5, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.produce(header(0, epoch=1)) == 1
    assert partition.produce(header(1, epoch=1)) == 2


def test_what_a_leader_accepted_is_never_refused() -> None:
    partition = Partition()
    partition.produce(header(0, epoch=3))

    partition.produce(header(9, epoch=3), AppendOrigin.REPLICATION)
    partition.produce(header(9, epoch=2), AppendOrigin.REPLICATION)

    assert partition.end_offset == 3


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    partition = Partition()
    partition.produce(header(0, flags=TRANSACTIONAL_BIT))

    assert refused(partition, header(1)) == ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_holds_the_first_unstable_offset() -> None:
    partition = Partition()
    partition.produce(header(0, count=3))

    partition.produce(header(3, flags=TRANSACTIONAL_BIT))
    partition.produce(header(4, flags=TRANSACTIONAL_BIT))

    assert partition.producers.first_unstable_offset == 3
    assert partition.producers.has_ongoing_transaction(7, 0)
    assert not partition.producers.has_ongoing_transaction(7, 1)


def test_a_decided_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    partition = Partition()
    partition.produce(header(0, flags=TRANSACTIONAL_BIT))
    completed = partition.end(commit=True)
    assert completed == CompletedTxn(7, 0, 1, is_aborted=False)
    partition.producers.complete(completed)

    partition.producers.on_high_watermark(1)
    before = partition.producers.first_unstable_offset
    partition.producers.on_high_watermark(2)

    assert (before, partition.producers.first_unstable_offset) == (0, None)


def test_the_stable_offset_after_a_transaction_stops_at_the_next_open_one() -> None:
    partition = Partition()
    partition.produce(header(0, pid=1, flags=TRANSACTIONAL_BIT))
    partition.produce(header(0, pid=2, flags=TRANSACTIONAL_BIT))
    first = partition.end(commit=False, pid=1)
    assert first is not None
    while_open = partition.producers.last_stable_offset_after(first)
    partition.producers.complete(first)
    second = partition.end(commit=False, pid=2)
    assert second is not None

    assert while_open == 1
    assert partition.producers.last_stable_offset_after(second) == 4


def test_a_marker_without_a_transaction_completes_none() -> None:
    partition = Partition()

    assert partition.end(commit=False, epoch=4) is None
    assert refused(partition, header(0, epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_after_a_marker_with_a_new_epoch_sequences_start_at_zero() -> None:
    partition = Partition()
    partition.produce(header(0, flags=TRANSACTIONAL_BIT))
    partition.end(commit=False, epoch=1)

    assert refused(partition, header(1, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.produce(header(0, epoch=1)) == 2


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    partition = Partition()
    partition.end(commit=True, coordinator_epoch=5)

    with pytest.raises(KafkaError) as caught:
        partition.end(commit=True, coordinator_epoch=4)

    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_an_older_producer_epoch_is_refused() -> None:
    partition = Partition()
    partition.produce(header(0, epoch=3))

    with pytest.raises(KafkaError) as caught:
        partition.end(commit=True, epoch=2)

    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_idle_producers_expire_and_open_transactions_do_not() -> None:
    partition = Partition()
    partition.produce(header(0, pid=1))
    partition.produce(header(0, pid=2, flags=TRANSACTIONAL_BIT))

    removed = partition.producers.remove_expired(now_ms=1000 + 500, expiration_ms=500)

    assert removed == 1
    assert list(partition.producers.producers) == [2]


def test_a_producer_expires_at_its_time_and_not_before() -> None:
    partition = Partition()
    partition.produce(header(0))

    assert partition.producers.remove_expired(now_ms=1499, expiration_ms=500) == 0


def test_clearing_forgets_transactions_too() -> None:
    partition = Partition()
    partition.produce(header(0, flags=TRANSACTIONAL_BIT))

    partition.producers.clear(9)

    assert partition.producers.first_unstable_offset is None
    assert partition.producers.map_end_offset == 9


@pytest.mark.parametrize(
    ("sequence", "increment", "result"),
    [(0, 0, 0), (5, 3, 8), (MAX_INT, 1, 0), (MAX_INT - 1, 4, 2)],
)
def test_sequences_advance_around_the_end(sequence: int, increment: int, result: int) -> None:
    assert advance_sequence(sequence, increment) == result


def begins(sequence: int = 0, **fields: int) -> BatchHeader:
    return header(sequence, flags=TRANSACTIONAL_BIT, **fields)


def append_refused(partition: Partition, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        partition.append(batch)
    return caught.value.code


def test_a_transaction_begins_only_with_the_consent_of_its_coordinator() -> None:
    partition = Partition()

    assert append_refused(partition, begins()) is ErrorCode.INVALID_TXN_STATE
    state = partition.ask(begins())
    assert append_refused(partition, begins()) is ErrorCode.INVALID_TXN_STATE
    state.verify(0)

    assert partition.append(begins()) == 0
    assert partition.ask(begins(1)) is None
    assert partition.append(begins(1)) == 1


def test_the_consent_to_one_epoch_is_none_to_another() -> None:
    partition = Partition()
    partition.ask(begins(epoch=1)).verify(1)

    assert append_refused(partition, begins(epoch=2)) is ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_of_an_older_epoch_vouches_for_none() -> None:
    partition = Partition()
    partition.produce(begins(epoch=1))

    assert partition.ask(begins(epoch=2)) is not None
    assert append_refused(partition, begins(epoch=2)) is ErrorCode.INVALID_TXN_STATE


def test_a_consent_asked_for_before_a_marker_is_void_after_it() -> None:
    partition = Partition()
    state = partition.ask(begins())
    partition.end(commit=False)
    again = partition.ask(begins())

    state.verify(0)

    assert again is not state
    assert append_refused(partition, begins()) is ErrorCode.INVALID_TXN_STATE


def test_a_consent_is_void_after_a_marker_for_another_batch_too() -> None:
    partition = Partition()
    partition.ask(begins()).verify(0)
    partition.end(commit=False)

    assert append_refused(partition, begins()) is ErrorCode.INVALID_TXN_STATE


def test_after_its_transaction_a_producer_is_asked_about_again() -> None:
    partition = Partition()
    partition.produce(begins())
    partition.end(commit=True)

    assert append_refused(partition, begins(1)) is ErrorCode.INVALID_TXN_STATE
    assert partition.produce(begins(1)) == 2


def test_a_batch_does_not_overtake_one_of_a_lower_sequence_that_is_asked_about() -> None:
    partition = Partition()
    first = partition.ask(begins(0))
    partition.ask(begins(1)).verify(0)

    assert append_refused(partition, begins(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    first.verify(0)
    assert [partition.append(begins(0)), partition.append(begins(1))] == [0, 1]


def test_a_new_epoch_begins_its_own_row_of_sequences_while_it_is_asked_about() -> None:
    partition = Partition()
    partition.ask(begins(0, epoch=1))
    partition.ask(begins(3, epoch=2))
    partition.ask(begins(1, epoch=1))  # late

    partition.ask(begins(3, epoch=2)).verify(2)

    assert partition.append(begins(3, epoch=2)) == 0


def test_a_duplicate_needs_no_consent() -> None:
    partition = Partition()
    partition.produce(begins())
    partition.end(commit=True)

    assert partition.producers.find_duplicate(begins()) is not None


def test_what_was_asked_long_ago_is_forgotten() -> None:
    partition = Partition()
    partition.ask(begins()).verify(0)

    partition.producers.remove_expired(NOW_MS + 1_000, expiration_ms=1_000)

    assert append_refused(partition, begins()) is ErrorCode.INVALID_TXN_STATE


def test_the_end_of_a_producer_forgets_what_was_asked_unless_a_newer_epoch_asks() -> None:
    partition = Partition()
    state = partition.ask(begins(epoch=1))
    partition.ask(begins(epoch=2))
    partition.producers.end_verification(written_by(begins(epoch=1)), state)
    assert partition.ask(begins(epoch=2)) is state

    partition.producers.end_verification(written_by(begins(epoch=2)), state)

    assert partition.ask(begins(epoch=2)) is not state


def test_followers_need_no_consent_and_take_over_without_one() -> None:
    partition = Partition()

    assert partition.append(begins(), AppendOrigin.REPLICATION) == 0
    assert partition.append(begins(1)) == 1


def test_offsets_in_a_transaction_have_no_row_of_sequences() -> None:
    """A group coordinator asks without a sequence, and its batch begins at 0."""
    partition = Partition()
    partition.ask(begins(NO_SEQUENCE)).verify(0)

    assert partition.append(begins(0), AppendOrigin.COORDINATOR) == 0
    assert append_refused(partition, begins(epoch=1)) is ErrorCode.INVALID_TXN_STATE
