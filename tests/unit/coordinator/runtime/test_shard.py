"""Writes of a shard: into the state at once, answered when stored, undone when refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.shard import BeingMade, nothing
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.record.record_batch import records
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
from tests.fakes.brokers.group_broker import OffsetsLog, OffsetsPartition, OffsetsReplicas
from tests.fakes.brokers.long_appends import LongAppends
from tests.fakes.brokers.tally import PARTITION, Tally, TallyMachine
from tests.fakes.clusters.replication import Replication

NONE = ErrorCode.NONE


async def turns() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def immediate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests here say themselves when replicas answer."""
    monkeypatch.setattr(OffsetsReplicas, "default_mode", Replication.IMMEDIATE)


def sums(tally: Tally) -> dict[str, int]:
    return dict(tally.machine.sums)


def stored(tally: Tally) -> dict[str, int | None]:
    kept = tally.machine.sums
    return {key: kept.stored(key) for key in kept.stored_keys()}


def batches(tally: Tally) -> list[list[bytes | None]]:
    return [[record.value for record in batch] for _, batch in tally.log.batches()]


def test_what_needs_no_waiting_is_answered_at_once_and_read_again_by_the_next_leader() -> None:
    tally = Tally()

    tally.add("a", 1)
    tally.add("a", 2)

    assert tally.answers == [(NONE, 1), (NONE, 3)]
    assert sums(tally) == stored(tally) == {"a": 3}
    assert sums(Tally(OffsetsLog(bytes(tally.log.data)))) == {"a": 3}


async def test_a_decision_rests_on_those_before_and_is_answered_when_it_is_stored() -> None:
    tally = Tally()
    tally.add("a", 1)
    tally.replicas.holds = True

    tally.add("a", 2)
    tally.add("a", 3)

    assert sums(tally) == {"a": 6}
    assert stored(tally) == {"a": 1}
    assert not tally.machine.sums.is_stored("a")
    assert tally.answers == [(NONE, 1)]

    tally.replicas.release()
    await turns()
    assert tally.answers == [(NONE, 1), (NONE, 3), (NONE, 6)]
    assert stored(tally) == {"a": 6}


def test_what_the_log_refuses_never_was() -> None:
    tally = Tally()
    tally.add("a", 1)
    tally.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS

    tally.add("a", 2)

    assert tally.answers == [(NONE, 1), (ErrorCode.NOT_ENOUGH_REPLICAS, 3)]
    assert sums(tally) == stored(tally) == {"a": 1}


async def test_what_is_in_the_log_stays_though_nobody_confirmed_it_in_time() -> None:
    tally = Tally()
    tally.add("a", 1)
    tally.replicas.holds = True
    tally.add("a", 2)

    tally.replicas.release(ErrorCode.REQUEST_TIMED_OUT)
    await turns()

    assert tally.answers[1:] == [(ErrorCode.REQUEST_TIMED_OUT, 3)]
    assert (sums(tally), stored(tally)) == ({"a": 3}, {"a": 1})
    tally.log.confirm()
    tally.shard.catch_up()
    assert stored(tally) == {"a": 3}


async def test_where_the_log_has_moved_what_nobody_confirmed_is_not_taken_for_stored() -> None:
    tally = Tally()
    tally.add("a", 1)
    tally.move()
    tally.replicas.holds = True
    tally.add("a", 2)
    tally.add("a", 3)
    assert len(batches(tally)) == 3

    for _ in range(2):
        tally.replicas.release(ErrorCode.REQUEST_TIMED_OUT)
        await turns()

    assert (sums(tally), stored(tally)) == ({"a": 6}, {"a": 1})
    tally.log.confirm()
    tally.shard.catch_up()
    assert stored(tally) == {"a": 6}


async def test_later_writes_wait_for_one_on_its_way_and_go_together() -> None:
    tally = Tally()
    long = LongAppends(tally.replicas)
    for number in (1, 2, 3):
        tally.add("a", number)
    assert sums(tally) == {"a": 6}
    assert batches(tally) == []
    long.is_long = False

    await long.finish()

    assert batches(tally) == [[b"1"], [b"3", b"6"]]
    assert tally.answers == [(NONE, 1), (NONE, 3), (NONE, 6)]
    assert stored(tally) == {"a": 6}
    tally.add("a", 4)
    assert tally.answers[3:] == [(NONE, 10)]


async def test_a_refused_write_takes_those_along_that_rest_on_it() -> None:
    tally = Tally()
    tally.add("a", 1)
    long = LongAppends(tally.replicas)
    for number in (2, 3):
        tally.add("a", number)
    note = KeyValue(b"note", b"changes nothing")
    tally.shard.write([note], nothing, lambda error: tally.answers.append((error, 0)))
    long.is_long = False

    await long.finish(ErrorCode.MESSAGE_TOO_LARGE)

    on_top = ErrorCode.NOT_ENOUGH_REPLICAS
    too_large = ErrorCode.MESSAGE_TOO_LARGE
    assert tally.answers[1:] == [(too_large, 3), (on_top, 6), (NONE, 0)]
    assert sums(tally) == stored(tally) == {"a": 1}
    tally.add("a", 5)
    assert tally.answers[4:] == [(NONE, 6)]
    assert batches(tally) == [[b"1"], [b"changes nothing"], [b"6"]]


async def test_a_batch_of_several_writes_that_is_too_large_goes_in_pieces() -> None:
    tally = Tally()
    long = LongAppends(tally.replicas)
    for number in (1, 2, 3):
        tally.add("a", number)

    await long.finish()
    await long.finish(ErrorCode.MESSAGE_TOO_LARGE)
    await long.finish()
    await long.finish()

    assert batches(tally) == [[b"1"], [b"3"], [b"6"]]
    assert tally.answers == [(NONE, 1), (NONE, 3), (NONE, 6)]


@pytest.mark.parametrize(("refused", "left"), [(b"a", "ab"), (b"c", "cd")])
def test_of_records_that_go_in_parts_each_part_enters_the_state_by_itself(
    refused: bytes, left: str
) -> None:
    tally = Tally()
    for key in "abcd":
        tally.add(key, 1)
    append = tally.replicas.append_records

    def fills_up(entries: list, *rest: object) -> object:
        keys = [record.key for record in records(bytes(entries[0][1]))]
        if len(keys) == 2 and refused not in keys:
            return append(entries, *rest)  # type: ignore[arg-type]
        error = ErrorCode.KAFKA_STORAGE_ERROR if len(keys) == 2 else ErrorCode.MESSAGE_TOO_LARGE
        return AppendOutcome([PartitionProduceResult(PARTITION, error)])

    def forget(part: slice) -> None:
        for key in "abcd"[part]:
            tally.machine.record(key.encode(), None, 0, None)

    tally.replicas.append_records = fills_up  # type: ignore[method-assign, assignment]
    told: list[ErrorCode] = []

    tally.shard.write_in_parts(
        [KeyValue(b"%c" % key, None) for key in b"abcd"], forget, told.append
    )

    assert told == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert sums(tally) == dict.fromkeys(left, 1)
    assert sums(Tally(OffsetsLog(bytes(tally.log.data)))) == sums(tally)


async def test_what_comes_again_in_parts_is_not_overtaken() -> None:
    tally = Tally()
    tally.add("a", 1)
    long = LongAppends(tally.replicas)
    tombstones = [KeyValue(b"a", None), KeyValue(b"b", None)]
    heard: list[tuple[str, ErrorCode]] = []
    tally.shard.write_in_parts(
        tombstones, lambda _: None, lambda error: heard.append(("parts", error))
    )
    tally.shard.write(
        [KeyValue(b"a", b"5")], nothing, lambda error: heard.append(("on top", error))
    )
    long.is_long = False

    await long.finish(ErrorCode.MESSAGE_TOO_LARGE)

    assert heard == [("on top", ErrorCode.NOT_ENOUGH_REPLICAS), ("parts", NONE)]
    assert batches(tally) == [[b"1"], [None, None]]


async def test_only_what_is_on_its_way_to_the_log_may_change_back() -> None:
    tally = Tally()
    entries = tally.machine.sums
    long = LongAppends(tally.replicas)
    tally.add("a", 1)
    assert entries.may_change_back
    long.is_long = False
    tally.replicas.holds = True
    tally.add("b", 1)
    assert entries.may_change_back

    tally.replicas.holds = False
    await long.finish()
    tally.replicas.holds = True
    tally.add("a", 1)

    assert not entries.are_stored
    assert not entries.may_change_back


async def test_who_fails_to_hear_how_a_write_ended_holds_up_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tally = Tally()
    long = LongAppends(tally.replicas)
    for _ in range(2):
        tally.shard.write([KeyValue(b"note", b"")], nothing, fails)
        tally.add("a", 1)
    long.is_long = False

    await long.finish()
    tally.add("a", 1)

    assert tally.answers == [(NONE, 1), (NONE, 2), (NONE, 3)]
    assert stored(tally) == {"a": 3}
    assert [str(PARTITION) in record.message for record in caplog.records] == [True, True]
    assert caplog.text.count("ValueError: a bug") == 2


async def test_who_fails_to_hear_that_leadership_goes_keeps_it_from_nobody() -> None:
    tally = Tally()
    tally.replicas.holds = True
    tally.shard.write([KeyValue(b"note", b"")], nothing, fails)
    tally.add("a", 1)

    tally.resign()

    assert tally.answers == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)]


def fails(_error: ErrorCode) -> None:
    raise ValueError("a bug")


async def test_what_the_log_refuses_is_never_told_as_if_it_were_there() -> None:
    tally = Tally()
    long = LongAppends(tally.replicas)
    tally.add("a", 1)

    await long.finish(ErrorCode.REQUEST_TIMED_OUT)

    assert tally.answers == [(ErrorCode.NOT_ENOUGH_REPLICAS, 1)]
    assert (sums(tally), batches(tally)) == ({}, [])


async def test_who_waits_is_told_when_leadership_goes_and_the_next_one_reads_the_log() -> None:
    tally = Tally()
    tally.replicas.holds = True
    tally.add("a", 1)
    machine = tally.machine

    tally.resign()
    tally.replicas.release()
    await turns()

    assert tally.answers == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)]
    assert machine.events == ["loaded", "resigned"]
    assert tally.runtime.status("a") is ErrorCode.NOT_COORDINATOR
    tally.lead(epoch=7)
    assert (tally.shard.epoch, sums(tally)) == (7, {"a": 1})


async def test_writes_in_line_are_told_when_leadership_goes() -> None:
    tally = Tally()
    long = LongAppends(tally.replicas)
    tally.add("a", 1)
    tally.add("a", 2)
    shard = tally.shard

    tally.resign()
    await long.finish()
    shard.write([], lambda _: None, lambda error: tally.answers.append((error, 0)))

    gone = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert tally.answers == [(gone, 1), (gone, 3), (gone, 0)]


def test_another_epoch_of_the_same_leader_changes_the_epoch_and_nothing_else() -> None:
    tally = Tally()
    tally.add("a", 1)
    machine = tally.machine

    tally.lead(epoch=3)

    assert tally.machine is machine
    assert tally.shard.epoch == 3


def test_partitions_of_other_topics_are_none_of_its_own() -> None:
    tally = Tally()
    other = OffsetsPartition(TopicPartition("other", 0), OffsetsLog())

    tally.runtime.on_leadership_change([], [other], TallyMachine)

    assert tally.runtime.is_ready(0)


def test_a_log_that_moves_while_it_is_read_is_read_again_where_it_is() -> None:
    class MovingLog(OffsetsLog):
        def read(self, *args: Any) -> Any:
            found = super().read(*args)
            tally.move()
            self.data.clear()
            return found

    tally = Tally()
    for number in range(4):
        tally.add(str(number) * 40_000, number)
    wanted = sums(tally)
    log = MovingLog(bytes(tally.log.data))
    tally.resign()

    tally.lead(log)
    assert tally.runtime.is_loading()
    tally.time.advance(1000)

    assert sums(tally) == wanted


# ---- answers that rest on writes


def ask(tally: Tally, answers: list[ErrorCode]) -> None:
    """Ask for all sums, of which somebody may hear only once they are stored."""
    kept = tally.machine.sums
    tally.shard.catch_up()
    error = None if not kept.are_stored else NONE
    if error is None:
        error = tally.shard.wait_for(kept.last_write, answers.append)
    if error is not None:
        answers.append(error)


async def test_an_answer_waits_for_the_writes_that_it_rests_on() -> None:
    tally, answers = Tally(), list[ErrorCode]()
    ask(tally, answers)
    assert answers == [NONE]
    tally.replicas.holds = True
    tally.add("a", 1)
    tally.add("a", 2)

    ask(tally, answers)

    assert answers == [NONE]
    tally.replicas.release()
    await turns()
    assert answers == [NONE, NONE]


async def test_an_answer_that_rests_on_a_refused_write_is_not_given() -> None:
    tally, answers = Tally(), list[ErrorCode]()
    long = LongAppends(tally.replicas)
    tally.add("a", 1)
    ask(tally, answers)
    tally.add("a", 2)
    ask(tally, answers)

    await long.finish(ErrorCode.MESSAGE_TOO_LARGE)

    assert tally.answers == [
        (ErrorCode.MESSAGE_TOO_LARGE, 1),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 3),
    ]
    assert answers == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    ask(tally, answers)
    assert answers[2:] == [NONE]


async def test_an_answer_that_rests_on_what_nobody_confirmed_waits_for_a_later_write_or_fails() -> (
    None
):
    tally, answers = Tally(), list[ErrorCode]()
    tally.replicas.holds = True
    tally.add("a", 1)
    ask(tally, answers)
    tally.replicas.release(ErrorCode.REQUEST_TIMED_OUT)
    await turns()
    ask(tally, answers)
    assert answers == [ErrorCode.REQUEST_TIMED_OUT] * 2

    tally.add("b", 1)
    ask(tally, answers)
    tally.replicas.release()
    await turns()

    assert answers[2:] == [NONE]


async def test_who_rests_on_a_write_hears_when_leadership_goes() -> None:
    tally, answers = Tally(), list[ErrorCode]()
    tally.replicas.holds = True
    tally.add("a", 1)
    ask(tally, answers)
    shard, last_write = tally.shard, tally.machine.sums.last_write

    tally.resign()

    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert shard.wait_for(last_write, answers.append) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# ---- records that are being made


def add_when_made(tally: Tally, number: int) -> asyncio.Future[Any]:
    """Add to "a" by a record that is still being made."""
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def replay(_base_offset: int) -> None:
        tally.machine.sums["a"] = tally.machine.sums.get("a", 0) + number

    def settled(error: ErrorCode) -> None:
        tally.answers.append((error, number))

    tally.shard.write_when_made(BeingMade(made, 1), replay, settled)
    return made


async def test_records_that_are_being_made_keep_their_place_and_are_in_the_state_at_once() -> None:
    tally = Tally()
    tally.add("a", 1)
    first = add_when_made(tally, 2)
    tally.add("a", 3)
    second = add_when_made(tally, 4)
    tally.add("a", 5)
    assert (sums(tally), stored(tally)) == ({"a": 15}, {"a": 1})
    assert tally.shard.next_offset == 5

    second.set_result([KeyValue(b"a", b"10")])
    await turns()
    assert batches(tally) == [[b"1"]]

    first.set_result([KeyValue(b"a", b"3")])
    await turns()

    assert batches(tally) == [[b"1"], [b"3", b"6"], [b"10", b"15"]]
    assert tally.answers == [(NONE, 1), (NONE, 2), (NONE, 6), (NONE, 4), (NONE, 15)]
    assert sums(tally) == stored(tally) == sums(Tally(OffsetsLog(bytes(tally.log.data))))
    tally.add("a", 1)
    assert tally.answers[5:] == [(NONE, 16)]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_records_that_cannot_be_made_never_were_nor_what_rests_on_them(
    is_cancelled: bool,
) -> None:
    tally = Tally()
    tally.add("a", 1)
    made = add_when_made(tally, 2)
    tally.add("a", 3)
    if is_cancelled:
        made.cancel()
    else:
        made.set_exception(ValueError("no"))
    await turns()

    assert sums(tally) == stored(tally) == {"a": 1}
    assert [code for code, _ in tally.answers] == [
        NONE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ]
    tally.add("a", 1)
    assert tally.answers[3:] == [(NONE, 2)]


async def test_records_that_are_made_after_leadership_has_gone_are_written_nowhere() -> None:
    tally = Tally()
    made = add_when_made(tally, 2)
    tally.shard.resign()
    made.set_result([KeyValue(b"a", b"2")])
    await turns()

    add_when_made(tally, 3)

    assert batches(tally) == []
    assert tally.answers == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, each) for each in (2, 3)]
