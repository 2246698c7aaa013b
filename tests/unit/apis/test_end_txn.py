"""EndTxn and AddOffsetsToTxn in all their versions, and InitProducerId with a transactional id."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.errors import ErrorCode
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.schema import Message
from tests.fakes.brokers.transaction_broker import TransactionBroker, turns
from tests.fakes.brokers.transaction_caller import TransactionCaller

E = ErrorCode
VERSIONS = range(5)  # of both
END_VERSIONS = range(6)
WRITE_X = (AclOperation.WRITE, AclResource(AclResourceType.TRANSACTIONAL_ID, "x"))
READ_G = (AclOperation.READ, AclResource(AclResourceType.GROUP, "g"))


def end(epoch: int = 0, *, name: str = "x", committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=name, producer_id=1000, producer_epoch=epoch, committed=committed
    )


def add_offsets(epoch: int = 0, *, name: str = "x") -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=1000, producer_epoch=epoch, group_id="g"
    )


@pytest.mark.parametrize("version", END_VERSIONS)
@pytest.mark.parametrize(
    ("committed", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")]
)
async def test_a_transaction_ends_as_its_producer_asks(
    version: int, committed: bool, state: str
) -> None:
    call = TransactionCaller()
    await call.init()
    await call.add({"t": [0]})

    answer = await call(end(committed=committed), version)
    await turns()

    assert answer.error_code == 0
    assert call.broker.state() == state


async def test_the_end_may_be_asked_for_again_but_not_another() -> None:
    call = TransactionCaller()
    await call.init()
    await call.add({"t": [0]})

    codes = []
    for committed in (True, True, False):
        codes.append((await call(end(committed=committed), 3)).error_code)
        await turns()

    assert codes == [0, 0, E.INVALID_TXN_STATE]


async def test_nothing_ends_where_nothing_has_begun() -> None:
    call = TransactionCaller()
    await call.init()
    for committed in (True, False):
        assert (await call(end(committed=committed), 3)).error_code == E.INVALID_TXN_STATE


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_of_a_group_take_part_where_it_is_kept(version: int) -> None:
    call = TransactionCaller()
    await call.init()

    answer = await call(add_offsets(), version)

    assert answer.error_code == 0
    last = call.broker.written()[-1]
    assert last is not None
    assert last.partitions == {TopicPartition(GROUP_METADATA_TOPIC, 0)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("request_", [end(3), add_offsets(3)])
async def test_a_fenced_producer_is_told_as_its_version_knows_it(
    request_: Message, version: int
) -> None:
    call = TransactionCaller()
    await call.init()

    answer = await call(request_, version)

    assert answer.error_code == (E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH)


async def test_a_producer_that_was_never_told_its_epoch_begins_nothing() -> None:
    call = TransactionCaller()
    call.broker.replicas.error = E.NOT_ENOUGH_REPLICAS
    assert (await call.init()).error_code == E.COORDINATOR_NOT_AVAILABLE
    call.broker.replicas.error = E.NONE

    codes = await call.add({"t": [0]}, producer=(1000, -1))

    assert codes == {("t", 0): E.PRODUCER_FENCED}
    assert (await call(end(-1), 3)).error_code == E.PRODUCER_FENCED
    assert (await call.init()).producer_epoch == 0


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (end(name="unknown"), E.INVALID_PRODUCER_ID_MAPPING),
        (add_offsets(name="unknown"), E.INVALID_PRODUCER_ID_MAPPING),
        (end(name=""), E.INVALID_REQUEST),
        (add_offsets(name=""), E.INVALID_REQUEST),
    ],
)
async def test_an_id_that_nobody_uses_is_refused(request_: Message, code: ErrorCode) -> None:
    assert (await TransactionCaller()(request_, 3)).error_code == code


@pytest.mark.parametrize(
    ("request_", "denied", "code"),
    [
        (end(), WRITE_X, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (add_offsets(), WRITE_X, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (add_offsets(), READ_G, E.GROUP_AUTHORIZATION_FAILED),
        (
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1),
            WRITE_X,
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
async def test_they_need_the_transactional_id_and_the_group(
    request_: Message, denied: Any, code: ErrorCode
) -> None:
    call = TransactionCaller()
    call.deny(denied)
    assert (await call(request_, 3)).error_code == code


# ---- InitProducerId


@pytest.mark.parametrize("version", range(6))
async def test_each_producer_of_an_id_gets_the_next_epoch(version: int) -> None:
    call = TransactionCaller()

    answers = [await call.init(version) for _ in range(2)]

    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [
        (0, 1000, 0),
        (0, 1000, 1),
    ]


@pytest.mark.parametrize("version", range(3, 6))
async def test_one_that_says_it_was_another_is_fenced(version: int) -> None:
    call = TransactionCaller()
    await call.init()

    answer = await call.init(version, producer_id=2000, producer_epoch=0)

    fenced = E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (fenced, -1, -1)


@pytest.mark.parametrize("producer", [(5, -1), (-1, 5)])
async def test_half_a_producer_is_none(producer: tuple[int, int]) -> None:
    call = TransactionCaller()
    answer = await call.init(producer_id=producer[0], producer_epoch=producer[1])
    assert (answer.error_code, answer.producer_id) == (E.INVALID_REQUEST, -1)
    assert call.broker.states() == []


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, E.INVALID_REQUEST),
        ("x", 0, E.INVALID_TRANSACTION_TIMEOUT),
        ("x", -1, E.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_001, E.INVALID_TRANSACTION_TIMEOUT),
    ],
)
async def test_what_makes_no_sense_is_refused(name: str, timeout_ms: int, code: ErrorCode) -> None:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    answer = await TransactionCaller()(request, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_a_broker_that_does_not_keep_the_id_says_so() -> None:
    call = TransactionCaller(TransactionBroker(lead=False))
    assert (await call.init()).error_code == E.NOT_COORDINATOR


async def test_version_5_ends_the_epoch_and_tells_the_next_one() -> None:
    call = TransactionCaller()
    await call.init()
    await call.add({"t": [0]})

    answers = [await call(end(), 5)]
    await turns()
    answers.append(await call(end(), 5))
    answers.append(await call(end(committed=False), 5))
    answers.append(await call(end(1), 5))
    answers.append(await call(end(1, committed=False), 5))

    told = [(a.error_code, a.producer_id, a.producer_epoch) for a in answers]
    assert told == [
        (0, 1000, 1),
        (0, 1000, 1),
        (E.INVALID_TXN_STATE, -1, -1),
        (E.INVALID_TXN_STATE, -1, -1),
        (0, 1000, 2),
    ]
