"""AddPartitionsToTxn, as clients send it and as brokers do."""

from __future__ import annotations

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation, AclResource, AclResourceType
from kbroker.errors import ErrorCode
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.turns import ENTRIES
from tests.fakes.brokers.transaction_broker import TransactionBroker
from tests.fakes.brokers.transaction_caller import TransactionCaller, codes_of, topics_of
from tests.fakes.running.loop_turns import counting_turns

E = ErrorCode
CLIENT_VERSIONS = range(4)


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
async def test_partitions_take_part_once_they_are_stored(version: int) -> None:
    call = TransactionCaller()
    await call.init()

    codes = await call.add({"t": [0, 3]}, version=version)

    assert codes == {("t", 0): 0, ("t", 3): 0}
    last = call.broker.written()[-1]
    assert last is not None
    assert last.partitions == {TopicPartition("t", 0), TopicPartition("t", 3)}


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
@pytest.mark.parametrize(
    ("producer", "code"),
    [
        ((1000, 1), E.PRODUCER_FENCED),
        ((1000, 7), E.PRODUCER_FENCED),
        ((1001, 0), E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_another_producer_is_told_as_its_version_knows_it(
    version: int, producer: tuple[int, int], code: ErrorCode
) -> None:
    call = TransactionCaller()
    await call.init()
    if code is E.PRODUCER_FENCED and version < 2:
        code = E.INVALID_PRODUCER_EPOCH

    assert await call.add({"t": [0]}, version=version, producer=producer) == {("t", 0): code}


@pytest.mark.parametrize(
    ("name", "code"),
    [("unknown", E.INVALID_PRODUCER_ID_MAPPING), ("", E.INVALID_REQUEST)],
)
async def test_an_id_that_nobody_uses_is_refused(name: str, code: ErrorCode) -> None:
    assert await TransactionCaller().add({"t": [0]}, name=name) == {("t", 0): code}


async def test_an_id_that_another_broker_keeps_is_refused() -> None:
    broker = TransactionBroker(lead=False)
    codes = await TransactionCaller(broker).add({"t": [0]})
    assert codes == {("t", 0): E.NOT_COORDINATOR}


@pytest.mark.parametrize("topic", ["nope", "t"])
async def test_where_one_is_refused_no_other_is_added(topic: str) -> None:
    call = TransactionCaller()
    await call.init()

    codes = await call.add({topic: [9], "t": [0]} if topic != "t" else {"t": [0, 9]})

    assert codes[topic, 9] == E.UNKNOWN_TOPIC_OR_PARTITION
    assert codes["t", 0] == E.OPERATION_NOT_ATTEMPTED
    assert call.broker.states() == ["Empty"]


async def test_what_is_denied_is_not_looked_up() -> None:
    call = TransactionCaller()
    await call.init()
    call.deny((AclOperation.WRITE, AclResource(AclResourceType.TOPIC, "secret")))

    codes = await call.add({"secret": [0], "t": [0], "nope": [0]})

    assert codes == {
        ("secret", 0): E.TOPIC_AUTHORIZATION_FAILED,
        ("t", 0): E.OPERATION_NOT_ATTEMPTED,
        ("nope", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("topic", [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
async def test_clients_write_to_no_internal_topic(topic: str) -> None:
    call = TransactionCaller()
    await call.init()
    assert await call.add({topic: [0]}) == {(topic, 0): E.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
async def test_it_needs_the_transactional_id(version: int) -> None:
    call = TransactionCaller()
    call.deny((AclOperation.WRITE, AclResource(AclResourceType.TRANSACTIONAL_ID, "x")))

    codes = await call.add({"t": [0, 1]}, version=version)

    assert set(codes.values()) == {E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert len(codes) == 2


async def test_a_long_request_is_answered_as_a_short_one() -> None:
    call = TransactionCaller()
    await call.init()
    missing = list(range(4, 3 * ENTRIES))

    codes = await call.add({"t": [0, *missing]})

    assert codes.pop(("t", 0)) == E.OPERATION_NOT_ATTEMPTED
    assert codes == {("t", index): E.UNKNOWN_TOPIC_OR_PARTITION for index in missing}


# ---- brokers


def batch(*verify_only: bool, partition: int = 0) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=1000 + number,
                producer_epoch=0,
                verify_only=only,
                topics=topics_of({"t": [partition]}),
            )
            for number, (name, only) in enumerate(zip("xy", verify_only, strict=False))
        ]
    )


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_for_several_transactions(version: int) -> None:
    call = TransactionCaller(is_peer=True)
    await call.init()
    await call.init(name="y")
    await call.add({"t": [0]})

    answer = await call(batch(True, True), version)

    found = {
        each.transactional_id: codes_of(each.topic_results)
        for each in answer.results_by_transaction
    }
    assert answer.error_code == 0
    assert found == {"x": {("t", 0): 0}, "y": {("t", 0): E.TRANSACTION_ABORTABLE}}
    assert call.broker.states() == ["Empty", "Empty", "Ongoing"]


async def test_brokers_add_for_their_clients() -> None:
    call = TransactionCaller(is_peer=True)
    await call.init()

    answer = await call(batch(False), 4)

    (result,) = answer.results_by_transaction
    assert codes_of(result.topic_results) == {("t", 0): 0}
    assert call.broker.states() == ["Empty", "Ongoing"]


async def test_brokers_are_told_what_does_not_exist() -> None:
    call = TransactionCaller(is_peer=True)
    await call.init()

    answer = await call(batch(True, partition=9), 5)

    (result,) = answer.results_by_transaction
    assert codes_of(result.topic_results) == {("t", 9): E.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [4, 5])
async def test_clients_do_not_speak_as_brokers(version: int) -> None:
    call = TransactionCaller()
    await call.init()

    answer = await call(batch(False), version)

    assert answer.error_code == E.CLUSTER_AUTHORIZATION_FAILED
    assert answer.results_by_transaction == []
    assert call.broker.states() == ["Empty"]


async def test_brokers_need_the_cluster() -> None:
    call = TransactionCaller(is_peer=True)
    call.deny((AclOperation.CLUSTER_ACTION, CLUSTER))
    assert (await call(batch(True), 5)).error_code == E.CLUSTER_AUTHORIZATION_FAILED


async def test_others_are_answered_while_many_partitions_are_looked_at_and_told() -> None:
    call = TransactionCaller()
    await call.init()
    many = 4 * ENTRIES

    answer, turns = await counting_turns(call.add({"t": [*range(many), 0]}))

    assert turns >= 2 * 4
    assert answer == {("t", n): 55 if n < 4 else 3 for n in range(many)}
