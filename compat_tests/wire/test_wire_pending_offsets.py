"""Offsets of groups that are committed in a transaction, and what administrators do with the group
before it ends.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.wire.transactional_producer import Transactions
from compat_tests.wire.wire_client import (
    DELETE_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    WireClient,
    code,
)

UNSTABLE, NONE = "88 UNSTABLE_OFFSET_COMMIT", -1
Act = Callable[[Transactions, str], str]


def delete_group(producer: Transactions, group: str) -> str:
    answer = producer.wire.call(DELETE_GROUPS, 2, groups_names=(group,))
    return code(answer.results[0].error_code)


def delete_offset(producer: Transactions, group: str) -> str:
    topics = [{"name": producer.topic, "partitions": [{"partition_index": 0}]}]
    answer = producer.wire.call(OFFSET_DELETE, 0, group_id=group, topics=topics)
    return code(answer.topics[0].partitions[0].error_code)


def commit(producer: Transactions, group: str, offset: int = 9) -> str:
    """As `kafka-consumer-groups --reset-offsets` does."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    answer = producer.wire.call(
        OFFSET_COMMIT, 5, group_id=group, generation_id_or_member_epoch=-1, member_id="",
        topics=[{"name": producer.topic, "partitions": [partition]}],
    )  # fmt: skip
    return code(answer.topics[0].partitions[0].error_code)


def producer_on(wire: WireClient, group: str) -> Transactions:
    producer = Transactions(wire)
    producer.find_coordinator()
    producer.begin()
    wire.wait_for_coordinator(group)
    return producer


@pytest.fixture
def producer(wire: WireClient, group: str) -> Transactions:
    return producer_on(wire, group)


def settled(producer: Transactions, group: str) -> int:
    """The offset once nothing is pending."""
    until(lambda: producer.committed(group, stable=True)[0] == "0", "the end")
    return producer.committed(group, stable=True)[1]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("before", [None, 3])
def test_an_offset_is_pending_until_its_transaction_ends(
    producer: Transactions, group: str, before: int | None, is_commit: bool
) -> None:
    if before is not None:
        assert commit(producer, group, before) == "0"
    old = NONE if before is None else before

    assert producer.commit_offset(group, 5) == "0"

    assert producer.committed(group, stable=True) == (UNSTABLE, NONE)
    assert producer.committed(group, stable=False) == ("0", old)
    assert producer.end(committed=is_commit) == "0"
    assert settled(producer, group) == (5 if is_commit else old)


def test_all_offsets_of_a_group_are_told_with_what_is_pending(
    producer: Transactions, group: str
) -> None:
    def told(*, stable: bool) -> list[tuple[str, int]]:
        answer = producer.wire.call(
            OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=stable
        )
        return [
            (code(each.error_code), each.committed_offset)
            for topic in answer.topics
            for each in topic.partitions
        ]

    producer.commit_offset(group, 5)
    assert (told(stable=True), told(stable=False)) == ([], [])
    commit(producer, group, 3)
    assert (told(stable=True), told(stable=False)) == ([(UNSTABLE, NONE)], [("0", 3)])


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("before", [None, 3])
@pytest.mark.parametrize("act", [delete_group, delete_offset])
def test_what_is_deleted_does_not_come_back_with_the_end_of_the_transaction(
    producer: Transactions, group: str, act: Act, before: int | None, is_commit: bool
) -> None:
    if before is not None:
        commit(producer, group, before)
    producer.commit_offset(group, 5)

    assert act(producer, group) == "0"

    assert producer.committed(group, stable=True) == ("0", NONE)
    assert producer.end(committed=is_commit) == "0"
    assert settled(producer, group) == NONE


@pytest.mark.parametrize("act", [delete_group, delete_offset])
def test_what_is_committed_after_a_deletion_counts(
    producer: Transactions, group: str, act: Act
) -> None:
    producer.commit_offset(group, 5)
    act(producer, group)

    assert producer.commit_offset(group, 7) == "0"
    producer.end()

    assert settled(producer, group) == 7


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_offset_that_is_reset_meanwhile_stays(
    producer: Transactions, group: str, is_commit: bool
) -> None:
    producer.commit_offset(group, 5)

    assert commit(producer, group) == "0"

    assert producer.committed(group, stable=True) == (UNSTABLE, NONE)
    assert producer.committed(group, stable=False) == ("0", 9)
    producer.end(committed=is_commit)
    assert settled(producer, group) == 9


def test_an_offset_that_is_committed_after_a_reset_counts(
    producer: Transactions, group: str
) -> None:
    commit(producer, group)
    producer.commit_offset(group, 7)
    producer.end()

    assert settled(producer, group) == 7


@pytest.mark.parametrize(
    ("act", "offset"), [(delete_group, NONE), (delete_offset, NONE), (commit, 9)]
)
def test_a_broker_that_was_killed_knows_the_same(
    own_broker: Callable[..., BrokerProcess], group: str, act: Act, offset: int
) -> None:
    broker = own_broker()
    wire = WireClient(broker.bootstrap)
    producer = producer_on(wire, group)
    producer.commit_offset(group, 5)
    assert act(producer, group) == "0"
    producer.end()
    assert settled(producer, group) == offset

    assert broker.process is not None
    wire.close()
    broker.process.kill()
    broker.process.wait()
    broker.start()

    producer.wire = WireClient(broker.bootstrap)
    producer.wire.wait_for_coordinator(group)
    assert settled(producer, group) == offset
    producer.wire.close()
