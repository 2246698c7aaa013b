"""What is open under a transactional id is aborted, and its producer shut out."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import pytest

from kbroker.client.aborted_ids import AbortedId, abort_what_is_open
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

COME_AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS


class Coordinator:
    """Broker 1, which coordinates all ids: the states of one in turn, the last one for ever, and
    what it answers a producer that comes.
    """

    bootstrap = "h:1"

    def __init__(self, *states: str, coming: ErrorCode = COME_AGAIN) -> None:
        self.states = deque(states)
        self.coming = coming
        self.epoch = 3
        self.came: list[InitProducerIdRequest] = []
        self.time_s = 0.0

    def ask_any(self, _request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1)

    def ask(self, _broker: int, request: Any) -> Any:
        if isinstance(request, InitProducerIdRequest):
            self.came.append(request)
            self.epoch += self.coming is COME_AGAIN
            return InitProducerIdResponse(error_code=self.coming)
        assert isinstance(request, DescribeTransactionsRequest)
        state = self.states[0] if len(self.states) == 1 else self.states.popleft()
        unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        topic = DescribeTransactionsResponse.TopicData(topic="t", partitions=[1, 0])
        told = DescribeTransactionsResponse.TransactionState(
            error_code=ErrorCode.NONE if state else unknown, transactional_id="x",
            producer_id=7, producer_epoch=self.epoch, transaction_state=state,
            transaction_timeout_ms=60_000, transaction_start_time_ms=5, topics=[topic],
        )  # fmt: skip
        return DescribeTransactionsResponse(transaction_states=[told])

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    def end(self) -> AbortedId | None:
        return abort_what_is_open(cast("ClusterLinks", self), "x", now_s=lambda: self.time_s)


def test_an_open_transaction_is_aborted_and_waited_for() -> None:
    coordinator = Coordinator("Ongoing", "PrepareAbort", "PrepareAbort", "CompleteAbort")

    done = coordinator.end()

    assert done is not None
    assert (done.before.producer_epoch, done.after.producer_epoch) == (3, 4)
    assert done.before.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert (done.decided, done.is_commit) == ("CompleteAbort", False)
    assert done.is_ended
    assert len(coordinator.came) == 1
    assert (coordinator.came[0].transactional_id, coordinator.came[0].producer_id) == ("x", -1)


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort", "Dead"])
def test_where_nothing_is_open_nobody_is_shut_out(state: str) -> None:
    coordinator = Coordinator(state)

    done = coordinator.end()

    assert done is not None
    assert done.before is done.after
    assert (done.decided, coordinator.came) == (None, [])


def test_an_id_that_nobody_uses_is_not_made() -> None:
    coordinator = Coordinator("")

    assert coordinator.end() is None
    assert coordinator.came == []


def test_the_next_transaction_of_the_id_is_left_alone() -> None:
    coordinator = Coordinator("PrepareAbort", "PrepareAbort", "Ongoing")

    done = coordinator.end()

    assert done is not None
    assert (done.is_ended, done.is_commit, coordinator.came) == (True, False, [])


@pytest.mark.parametrize("decided", ["PrepareCommit", "PrepareAbort"])
def test_what_was_decided_is_waited_for(decided: str) -> None:
    coordinator = Coordinator(decided, decided, decided.replace("Prepare", "Complete"))

    done = coordinator.end()

    assert done is not None
    assert (done.is_commit, coordinator.came) == (decided == "PrepareCommit", [])


def test_it_is_shut_out_again_while_something_else_is_on_its_way() -> None:
    coordinator = Coordinator("Ongoing", "Ongoing", "PrepareAbort", "CompleteAbort")

    done = coordinator.end()

    assert done is not None
    assert (done.is_commit, len(coordinator.came)) == (False, 2)


def test_a_decision_that_nobody_saw_on_its_way_is_the_one_that_is_complete() -> None:
    done = Coordinator("Ongoing", "CompleteCommit").end()
    ended_before = Coordinator("Ongoing", "Empty", coming=ErrorCode.NONE).end()

    assert done is not None
    assert ended_before is not None
    assert (done.decided, ended_before.decided) == ("CompleteCommit", None)


def test_a_refusal_is_told() -> None:
    coordinator = Coordinator("Ongoing", coming=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaError) as refused:
        coordinator.end()
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_an_end_that_does_not_come_is_given_up() -> None:
    coordinator = Coordinator("Ongoing", "PrepareAbort")

    done = coordinator.end()

    assert done is not None
    assert not done.is_ended
    assert 60 <= coordinator.time_s < 61
