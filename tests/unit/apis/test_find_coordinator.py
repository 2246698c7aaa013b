"""FindCoordinator in all its versions."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import GROUP_METADATA_TOPIC, NO_LEADER, TRANSACTION_STATE_TOPIC
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.fakes.brokers.group_broker import BROKER_ID, GroupBroker, metadata_of
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.brokers.transaction_broker import TransactionBroker
from tests.fakes.brokers.transaction_caller import TransactionCaller


@pytest.mark.parametrize("version", range(4))
def test_one_group(version: int) -> None:
    response = GroupCaller()(FindCoordinatorRequest(key="g"), version)

    assert (response.error_code, response.node_id) == (0, BROKER_ID)
    assert (response.host, response.port) == ("broker.local", 9092)
    assert response.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", range(4, 7))
def test_several_groups(version: int) -> None:
    response = GroupCaller()(FindCoordinatorRequest(coordinator_keys=["a", ""]), version)

    assert [
        (each.key, each.error_code, each.node_id, each.host, each.port, each.error_message)
        for each in response.coordinators
    ] == [(key, 0, BROKER_ID, "broker.local", 9092, "") for key in ("a", "")]


@pytest.mark.parametrize("version", [1, 6])
def test_first_question_makes_the_topic_and_is_answered_well(version: int) -> None:
    broker = GroupBroker(lead=False)

    response = GroupCaller(broker)(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)

    assert broker.created == [GROUP_METADATA_TOPIC]
    found = response.coordinators[0] if version == 6 else response
    assert (found.error_code, found.node_id) == (0, BROKER_ID)


async def test_keys_without_a_coordinator_are_waited_for_together() -> None:
    broker = GroupBroker(lead=False)
    broker.creation_error = ErrorCode.INVALID_REPLICATION_FACTOR
    keys = [f"g{number}" for number in range(10)]

    asking = asyncio.ensure_future(
        GroupCaller(broker).answer(FindCoordinatorRequest(coordinator_keys=keys), 6)
    )
    while not asking.done():
        await asyncio.sleep(0)
        broker.time.advance(10)

    codes = [each.error_code for each in (await asking).coordinators]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 10
    assert broker.time.monotonic_ms() < 6000


def test_share_groups_have_no_coordinator_and_other_key_types_no_meaning() -> None:
    call = GroupCaller()

    share = call(FindCoordinatorRequest(key_type=2, coordinator_keys=["x"]), 6)
    with pytest.raises(KafkaError) as refused:
        call(FindCoordinatorRequest(key_type=7, key="x"), 1)

    assert share.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 5])
def test_share_partitions_are_not_asked_for_before_version_6(version: int) -> None:
    key = f"g:{uuid.uuid4()}:0"
    request = FindCoordinatorRequest(key=key, key_type=2, coordinator_keys=[key])

    response = GroupCaller()(request, version)

    found = response.coordinators[0] if version == 5 else response
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_partition_whose_leader_is_away_is_told_at_once() -> None:
    broker = GroupBroker()
    broker.metadata.update(metadata_of({GROUP_METADATA_TOPIC: 1}, leader=NO_LEADER))

    response = GroupCaller(broker)(FindCoordinatorRequest(key="g"), 1)  # no time passes

    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", [1, 6])
async def test_a_transactional_id_has_a_coordinator_whose_topic_is_made(version: int) -> None:
    call = TransactionCaller(TransactionBroker(lead=False))
    call.broker.metadata.update(metadata_of({}))
    request = FindCoordinatorRequest(key="x", key_type=1, coordinator_keys=["x"])

    response = await call(request, version)

    found = response.coordinators[0] if version == 6 else response
    assert (found.error_code, found.node_id) == (0, BROKER_ID)
    assert call.broker.metadata.partition_count(TRANSACTION_STATE_TOPIC) == 1
