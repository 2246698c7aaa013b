"""Transactions: who is the producer of a transactional id, what takes part, how it ends."""

from __future__ import annotations

import pytest

from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    first_batch,
)
from compat_tests.wire.transactional_producer import Transactions
from compat_tests.wire.wire_client import (
    ADD_OFFSETS_TO_TXN,
    LIST_OFFSETS,
    REFUSED,
    TXN_OFFSET_COMMIT,
    WireClient,
    code,
    stored_at,
)

BUSY, LOADING = 51, 14
FENCED, OLD_FENCED = "90 PRODUCER_FENCED", "47 INVALID_PRODUCER_EPOCH"
UNMAPPED, WRONG_STATE = "49 INVALID_PRODUCER_ID_MAPPING", "48 INVALID_TXN_STATE"
COME_AGAIN = ("6 NOT_LEADER_OR_FOLLOWER", "19 NOT_ENOUGH_REPLICAS")
READ_COMMITTED = 1


@pytest.fixture
def made(wire: WireClient) -> Transactions:
    transactions = Transactions(wire)
    transactions.find_coordinator()
    return transactions


@pytest.fixture
def begun(made: Transactions) -> Transactions:
    made.begin()
    return made


# ---- who the producer is


@pytest.mark.row(70, 71)
@pytest.mark.parametrize("timeout_ms", [900_001, 0, -1])
def test_a_time_out_that_makes_no_sense_is_refused(made: Transactions, timeout_ms: int) -> None:
    answer = made.init(transaction_timeout=timeout_ms)
    assert code(answer.error_code) == "50 INVALID_TRANSACTION_TIMEOUT"
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.row(73)
def test_each_producer_gets_the_next_epoch_of_one_id(made: Transactions) -> None:
    first, second = made.init(), made.init()
    assert [first.producer_epoch, second.producer_epoch] == [0, 1]
    assert first.producer_id == second.producer_id


@pytest.mark.row(74)
def test_a_producer_that_is_not_the_present_one_is_fenced(made: Transactions) -> None:
    first = made.init(4, producer_id=-1, producer_epoch=-1)
    who = {"producer_id": first.producer_id, "producer_epoch": 0}
    second = made.init(4, **who)
    made.init(4, producer_id=second.producer_id, producer_epoch=second.producer_epoch)

    assert code(made.init(4, **who).error_code) == FENCED


@pytest.mark.row(75)
@pytest.mark.parametrize(("version", "expected"), [(3, OLD_FENCED), (4, FENCED)])
def test_another_producer_id_is_fenced(made: Transactions, version: int, expected: str) -> None:
    first = made.init(4, producer_id=-1, producer_epoch=-1)
    answer = made.init(version, producer_id=first.producer_id + 1000, producer_epoch=0)
    assert (code(answer.error_code), answer.producer_id) == (expected, -1)


# ---- what takes part


@pytest.mark.row(81)
def test_nothing_is_added_for_an_unknown_id(begun: Transactions) -> None:
    assert begun.add(transactional_id=f"{begun.name}-not") == [UNMAPPED]


@pytest.mark.row(82)
def test_nothing_is_added_for_another_producer(begun: Transactions) -> None:
    assert begun.add(producer_id=begun.producer_id + 1000) == [UNMAPPED]
    begun.begin()
    for epoch in (begun.epoch - 1, begun.epoch + 1):
        assert begun.add(producer_epoch=epoch) == [FENCED]


@pytest.mark.row(83)
def test_an_old_version_has_an_old_code_for_a_fenced_producer(begun: Transactions) -> None:
    assert begun.add(producer_epoch=begun.epoch + 1, version=1) == [OLD_FENCED]


@pytest.mark.row(84)
def test_no_partition_is_added_where_one_is_missing(begun: Transactions) -> None:
    assert begun.add(0, 9) == ["55 OPERATION_NOT_ATTEMPTED", "3 UNKNOWN_TOPIC_OR_PARTITION"]


def test_an_empty_transactional_id_is_no_id(begun: Transactions) -> None:
    assert begun.add(transactional_id="") == ["42 INVALID_REQUEST"]
    assert begun.end(transactional_id="") == "42 INVALID_REQUEST"


def test_internal_topics_are_not_for_producers(begun: Transactions) -> None:
    topics = [{"name": "__transaction_state", "partitions": (0,)}]
    assert begun.add(topics=topics) == ["29 TOPIC_AUTHORIZATION_FAILED"]


def test_a_transaction_of_no_partitions_begins_all_the_same(begun: Transactions) -> None:
    assert begun.add(topics=[]) == []
    assert begun.end() == "0"


@pytest.mark.parametrize("is_open", [True, False])
def test_an_old_epoch_writes_under_no_transactional_id(begun: Transactions, is_open: bool) -> None:
    begun.begin()
    assert begun.add() == ["0"]
    assert begun.write() == stored_at(0)
    if not is_open:
        assert begun.end() == "0"
    old = Batch(
        attributes=TRANSACTIONAL,
        producer_id=begun.producer_id,
        producer_epoch=begun.epoch - 1,
        base_sequence=0,
    ).to_bytes()

    answers = {
        begun.wire.produce(begun.topic, old, version, transactional_id=name)
        for name in (begun.name, f"{begun.name}-not")
        for version in (8, 11)
    }

    assert answers == {f"{OLD_FENCED}; {REFUSED}"}


# ---- how it ends


@pytest.mark.row(85)
@pytest.mark.parametrize("committed", [True, False])
def test_nothing_ends_where_nothing_has_begun(begun: Transactions, committed: bool) -> None:
    assert begun.end(committed=committed) == WRONG_STATE


@pytest.mark.row(87)
def test_an_end_may_be_asked_for_again_but_not_another(begun: Transactions) -> None:
    assert begun.add() == ["0"]
    assert [begun.end(), begun.end(), begun.end(committed=False)] == ["0", "0", WRONG_STATE]


@pytest.mark.row(88)
@pytest.mark.parametrize(("version", "expected"), [(1, OLD_FENCED), (3, FENCED)])
def test_a_fenced_producer_ends_nothing(begun: Transactions, version: int, expected: str) -> None:
    assert begun.end(version=version, producer_epoch=begun.epoch + 1) == expected


@pytest.mark.row(89)
@pytest.mark.parametrize("committed", [True, False])
def test_what_is_open_is_not_read_by_those_who_read_committed(
    begun: Transactions, committed: bool
) -> None:
    wire, topic = begun.wire, begun.topic
    assert begun.add() == ["0"]
    assert begun.write() == stored_at(0)

    open_ones = wire.fetch(topic, 0, isolation_level=READ_COMMITTED)
    everything = wire.fetch(topic, 0, isolation_level=0)
    latest = [_latest(wire, topic, isolation) for isolation in (READ_COMMITTED, 0)]
    assert (open_ones.high_watermark, open_ones.last_stable_offset) == (1, 0)
    assert not open_ones.records
    assert len(everything.records) == 70
    assert latest == [0, 1]

    assert begun.end(committed=committed) == "0"
    until(lambda: _latest(wire, topic, READ_COMMITTED) == 2, "the end of the transaction")
    ended = wire.fetch(topic, 0, isolation_level=READ_COMMITTED)
    aborted = [(a.producer_id, a.first_offset) for a in ended.aborted_transactions or ()]
    assert (ended.last_stable_offset, ended.high_watermark) == (2, 2)
    assert len(ended.records) == 148
    assert aborted == ([] if committed else [(begun.producer_id, 0)])
    assert wire.fetch(topic, 0, isolation_level=0).aborted_transactions is None


@pytest.mark.row(90)
def test_a_producer_that_comes_aborts_what_is_open(begun: Transactions) -> None:
    assert begun.add() == ["0"]
    assert begun.write() == stored_at(0)

    second = begun.init()

    assert (begun.epoch, second.producer_epoch) == (0, 2)
    assert begun.write(1).startswith(OLD_FENCED)
    assert begun.end() == FENCED
    until(lambda: _latest(begun.wire, begun.topic, READ_COMMITTED) == 2, "the abort")


@pytest.mark.row(93)
def test_the_next_transaction_begins_when_the_last_has_ended(begun: Transactions) -> None:
    for number in range(3):
        assert begun.add() == ["0"]
        assert begun.write(number) == stored_at(2 * number)
        assert begun.end() == "0"


def _latest(wire: WireClient, topic: str, isolation: int) -> int:
    wanted = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    topics = [{"name": topic, "partitions": [wanted]}]
    answer = wire.call(LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics)
    return int(answer.topics[0].partitions[0].offset)


# ---- offsets of groups


def test_an_old_epoch_commits_no_offsets_under_any_transactional_id(
    begun: Transactions, group: str
) -> None:
    begun.wire.wait_for_coordinator(group)
    begun.begin()
    assert begun.commit_offset(group, 5) == "0"
    partition = {"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}
    topics = [{"name": begun.topic, "partitions": [{**partition, "committed_leader_epoch": -1}]}]

    for name in (begun.name, f"{begun.name}-not"):
        answer = begun.wire.call(
            TXN_OFFSET_COMMIT, 3, transactional_id=name, group_id=group, member_id="",
            generation_id=-1, producer_id=begun.producer_id, producer_epoch=begun.epoch - 1,
            topics=topics,
        )  # fmt: skip
        assert code(answer.topics[0].partitions[0].error_code) == OLD_FENCED

    assert begun.end() == "0"
    until(lambda: begun.committed(group, stable=True) == ("0", 5), "the offset")


@pytest.mark.row(91)
def test_offsets_of_a_transaction_are_for_a_member_that_there_is(
    begun: Transactions, group: str
) -> None:
    wire = begun.wire
    wire.wait_for_coordinator(group)
    who = {
        "transactional_id": begun.name,
        "producer_id": begun.producer_id,
        "producer_epoch": begun.epoch,
        "group_id": group,
    }
    assert code(wire.call(ADD_OFFSETS_TO_TXN, 3, **who).error_code) == "0"

    codes = []
    for member, generation in (("x", 5), ("", -1), ("", 5)):
        partition = {
            "partition_index": 0,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        topics = [{"name": begun.topic, "partitions": [partition]}]
        fields = {"member_id": member, "generation_id": generation, "topics": topics}
        answer = wire.call(TXN_OFFSET_COMMIT, 3, **who, **fields)
        codes.append(code(answer.topics[0].partitions[0].error_code))

    assert codes == ["22 ILLEGAL_GENERATION", "0", "25 UNKNOWN_MEMBER_ID"]
    assert begun.committed(group, stable=True) == ("88 UNSTABLE_OFFSET_COMMIT", -1)
    assert begun.committed(group, stable=False) == ("0", -1)
    assert begun.end() == "0"
    until(lambda: begun.committed(group, stable=True) == ("0", 7), "the offset")


@pytest.mark.parametrize(("version", "expected"), [(1, OLD_FENCED), (3, FENCED)])
def test_offsets_of_a_fenced_producer_do_not_take_part(
    begun: Transactions, group: str, version: int, expected: str
) -> None:
    begun.wire.wait_for_coordinator(group)
    answer = begun.wire.call(
        ADD_OFFSETS_TO_TXN,
        version,
        transactional_id=begun.name,
        producer_id=begun.producer_id,
        producer_epoch=begun.epoch + 1,
        group_id=group,
    )
    assert code(answer.error_code) == expected


# ---- how its end is stored


@pytest.mark.parametrize(
    ("kind", "bit"), [("CreateTime", 0), ("LogAppendTime", LOG_APPEND_TIME)], ids=str
)
def test_a_marker_has_the_kind_of_time_that_its_topic_has(
    begun: Transactions, kind: str, bit: int
) -> None:
    wire = begun.wire
    begun.topic = wire.create_topic(configs={"message.timestamp.type": kind})
    begun.add(0)
    assert begun.write().startswith("0; base_offset=0")
    assert begun.end() == "0"
    until(lambda: wire.list_offsets(begun.topic, -1).startswith("0 offset=2 "), "a marker")

    marker = first_batch(wire.fetch(begun.topic, 1).records)

    assert marker["attributes"] == TRANSACTIONAL | CONTROL | bit
    assert marker["base_timestamp"] <= marker["max_timestamp"]
