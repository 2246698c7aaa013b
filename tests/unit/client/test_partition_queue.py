"""Batches on their way to a partition: in order, each once, whatever becomes of one of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kbroker.client.partition_queue import IN_FLIGHT_MAX, PartitionQueue, SentBatch
from kbroker.record.packed_batch import PackedBatch
from kbroker.record.record_batch import Record, build, read_header

ONE_BATCH = 1_000


def queue_of(*batches: Sequence[bytes], has_sequences: bool = True) -> PartitionQueue:
    queue = PartitionQueue(0, has_sequences=has_sequences)
    for bodies in batches:
        queue.gather(bodies)
        queue.cut(ONE_BATCH, timestamp_ms=0, give_up_s=30)
    return queue


def known_queue_of(*batches: Sequence[bytes]) -> PartitionQueue:
    """One whose producer the broker knows by a batch of one record."""
    queue = queue_of([b"first"], *batches)
    queue.accept(sent(queue)[0])
    return queue


def sent(queue: PartitionQueue) -> list[SentBatch]:
    found = []
    while (batch := queue.next_batch()) is not None:
        found.append(batch)
    return found


def bodies_of(batches: Sequence[SentBatch]) -> list[list[bytes]]:
    return [list(batch.bodies) for batch in batches]


def sequences_of(batches: Sequence[SentBatch]) -> list[int | None]:
    return [batch.sequence for batch in batches]


def test_one_batch_is_in_flight_until_the_broker_knows_the_producer() -> None:
    queue = queue_of(*[[b"a", b"b"]] * 9)

    first = sent(queue)
    queue.accept(first[0])
    others = sent(queue)

    assert (len(first), len(others)) == (1, IN_FLIGHT_MAX)
    assert sequences_of([*first, *others]) == [0, 2, 4, 6, 8, 10]


def test_without_sequences_one_batch_is_in_flight() -> None:
    queue = queue_of([b"a"], [b"b"], has_sequences=False)

    queue.accept(sent(queue)[0])
    others = sent(queue)

    assert sequences_of(others) == [None]


def test_a_batch_that_was_not_written_goes_again_before_those_behind_it() -> None:
    queue = known_queue_of([b"a"], [b"b"], [b"c"])
    a, b, c = sent(queue)

    queue.fail(a)
    assert queue.next_batch() is None, "b and c are not known of"
    assert queue.fails_by_another(b)
    queue.fail(b)
    queue.fail(c)

    again = sent(queue)
    assert bodies_of(again) == [[b"a"], [b"b"], [b"c"]]
    assert sequences_of(again) == [1, 2, 3]


def test_a_batch_behind_one_that_failed_may_have_been_written_before() -> None:
    queue = known_queue_of([b"a"], [b"b"])
    a, b = sent(queue)

    queue.fail(a)
    queue.accept(b)

    assert bodies_of(sent(queue)) == [[b"a"]]


def test_a_refused_batch_leaves_its_sequences_to_the_next() -> None:
    queue = known_queue_of([b"a", b"a"], [b"b", b"b", b"b"], [b"c"])
    a, b, c = sent(queue)

    queue.refuse(a)
    assert queue.fails_by_another(b)
    queue.fail(b)
    queue.fail(c)

    again = sent(queue)
    assert bodies_of(again) == [[b"b", b"b", b"b"], [b"c"]]
    assert sequences_of(again) == [1, 4]


def test_nothing_overtakes_what_is_in_flight_behind_a_refused_batch() -> None:
    queue = known_queue_of(*([letter] for letter in (b"a", b"b", b"c", b"d", b"e", b"f")))
    a, *behind = sent(queue)

    queue.refuse(a)
    assert sent(queue) == []
    for batch in behind:
        queue.fail(batch)

    again = sent(queue)
    assert bodies_of(again) == [[b"b"], [b"c"], [b"d"], [b"e"], [b"f"]]
    assert sequences_of(again) == [1, 2, 3, 4, 5]


def test_a_batch_that_failed_before_a_refused_one_keeps_its_sequences() -> None:
    queue = known_queue_of([b"a", b"a"], [b"b"], [b"c"])
    a, b, c = sent(queue)

    queue.halve(a)
    queue.refuse(b)
    queue.fail(c)

    again = sent(queue)
    assert bodies_of(again) == [[b"a"], [b"a"], [b"c"]]
    assert sequences_of(again) == [1, 2, 3]


def test_an_order_that_nothing_explains_is_no_failure_by_another() -> None:
    queue = known_queue_of([b"a"])
    (a,) = sent(queue)

    assert not queue.fails_by_another(a)


def test_a_batch_that_is_too_large_goes_as_two_with_its_sequences() -> None:
    queue = known_queue_of([b"1", b"2", b"3"], [b"4"])
    large, behind = sent(queue)

    queue.halve(large)
    queue.fail(behind)

    again = sent(queue)
    assert bodies_of(again) == [[b"1"], [b"2", b"3"], [b"4"]]
    assert sequences_of(again) == [1, 2, 4]


def test_a_batch_holds_what_fits_and_one_record_at_least() -> None:
    queue = PartitionQueue(0, has_sequences=True)
    queue.gather([b"x" * 400, b"y" * 400, b"z" * 400, b"w" * 5_000])

    while queue.is_gathering:
        queue.cut(ONE_BATCH, timestamp_ms=0, give_up_s=30)

    sizes = []
    while (batch := queue.next_batch()) is not None:
        sizes.append([len(body) for body in batch.bodies])
        queue.accept(batch)
    assert sizes == [[400, 400], [400], [5_000]]
    assert queue.is_idle
    assert queue.gathered_bytes == 0


def test_sequences_go_on_with_zero_after_the_largest() -> None:
    queue = known_queue_of([b"a"], [b"b"])
    a, b = sent(queue)
    a.sequence, b.sequence = 0x7FFF_FFFF, None

    queue.refuse(a)
    queue.gather([b"c"])
    queue.cut(ONE_BATCH, timestamp_ms=0, give_up_s=30)
    queue.fail(b)

    assert sequences_of(sent(queue)) == [0x7FFF_FFFF, 0]


def test_the_oldest_batch_tells_when_it_has_taken_too_long() -> None:
    queue = queue_of([b"a"], [b"b"])
    assert queue.give_up_s == 30

    for batch in (*sent(queue), *sent(queue)):
        queue.accept(batch)

    queue.accept(sent(queue)[0])
    assert queue.give_up_s is None


# Records with times of their own, and batches that go as they are.


def test_times_stay_with_their_records() -> None:
    queue = PartitionQueue(0, has_sequences=True)
    queue.gather([b"x" * 600, b"y" * 600], times=[5, 6])
    queue.gather([b"z"], times=[7])
    while queue.is_gathering:
        queue.cut(ONE_BATCH, timestamp_ms=99, give_up_s=30)

    (first,) = sent(queue)
    queue.accept(first)
    (second,) = sent(queue)

    assert (first.timestamps, second.timestamps) == ([5], [6, 7])


def test_halves_keep_their_times() -> None:
    queue = PartitionQueue(0, has_sequences=True)
    queue.gather([b"a", b"b", b"c"], times=[5, 6, 7])
    queue.cut(ONE_BATCH, timestamp_ms=99, give_up_s=30)

    queue.halve(sent(queue)[0])
    (first,) = sent(queue)
    queue.accept(first)
    (second,) = sent(queue)

    assert [(part.bodies, part.timestamps) for part in (first, second)] == [
        ([b"a"], [5]),
        ([b"b", b"c"], [6, 7]),
    ]


def test_a_packed_batch_takes_its_sequence_numbers() -> None:
    data = build([Record(n, 7, None, b"v") for n in range(3)])
    queue = known_queue_of()
    queue.add(PackedBatch(read_header(data), memoryview(data)), give_up_s=30)
    queue.gather([b"a"])
    queue.cut(ONE_BATCH, timestamp_ms=0, give_up_s=30)

    batches = sent(queue)

    assert [(batch.sequence, batch.count) for batch in batches] == [(1, 3), (4, 1)]


def test_a_refusal_touches_no_batch_that_was_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, touched = 2_000, 0

    class CountedBatch(SentBatch):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            nonlocal touched
            touched += 1
            super().__setattr__(name, value)

    monkeypatch.setattr("kbroker.client.partition_queue.SentBatch", CountedBatch)
    queue = known_queue_of(*[[b"a"]] * batches)
    while found := sent(queue):
        queue.refuse(found[0])
        for batch in found[1:]:
            queue.fail(batch, may_be_written=False)

    assert touched < 50 * batches


def test_many_batches_are_cut_at_one_look_at_the_records() -> None:
    looks = 0

    class CountedBytes(bytes):
        def __len__(self) -> int:
            nonlocal looks
            looks += 1
            return super().__len__()

    queue = PartitionQueue(0, has_sequences=True)
    queue.gather([CountedBytes(b"a")] * 2_000)

    assert queue.cut(1, timestamp_ms=0, give_up_s=30) == 2_000
    assert looks < 5 * 2_000
