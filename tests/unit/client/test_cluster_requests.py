"""The controller and coordinators are found, however often they have just moved."""

from __future__ import annotations

import itertools
from collections import deque
from types import MappingProxyType
from typing import Any, cast

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.cluster_requests import (
    GROUP,
    ask_controller,
    ask_coordinator,
    check_all_listed,
    check_coordinator_partition,
)
from kbroker.client.exit_code import ExitCode
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorResponse
from kbroker.protocol.messages.metadata import MetadataResponse

GONE = ConnectionRefusedError("broker 1 is not there")
CUT = ConnectionResetError("it closed the connection")


class Cluster:
    """Controllers by id, one look after the other; brokers that give what is listed, or raise it."""

    bootstrap = "h:1"

    def __init__(self, controllers: list[int], answers: list[Any]) -> None:
        self.controllers = deque(controllers)
        self.answers = deque(answers)
        self.coordinator_code = ErrorCode.NONE
        self.slept = self.lost = 0

    def describe(self, _names: list[str]) -> MetadataResponse:
        last = len(self.controllers) == 1
        return MetadataResponse(
            controller_id=self.controllers[0] if last else self.controllers.popleft()
        )

    def ask_any(self, _request: Any) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, error_code=self.coordinator_code)

    def link(self, _node_id: int) -> Cluster:
        if self.answers[0] is GONE:
            raise self.answers.popleft()
        return self

    def ask(self, *_arguments: Any) -> Any:
        answer = self.answers.popleft()
        if isinstance(answer, OSError):
            raise answer
        return answer

    def lose(self, link: Cluster) -> None:
        assert link is self
        self.lost += 1

    def sleep(self, _seconds: float) -> None:
        self.slept += 1


def links(cluster: Cluster) -> ClusterLinks:
    return cast("ClusterLinks", cluster)


def create(cluster: Cluster) -> Any:
    return ask_controller(links(cluster), CreateTopicsRequest())


def delete(cluster: Cluster) -> Any:
    _, answer = ask_coordinator(links(cluster), "g", DeleteGroupsRequest(groups_names=["g"]))
    return answer.results[0].error_code


def deleted(code: ErrorCode) -> DeleteGroupsResponse:
    result = DeleteGroupsResponse.DeletableGroupResult(group_id="g", error_code=code)
    return DeleteGroupsResponse(results=[result])


@pytest.mark.parametrize(
    ("controllers", "answers", "slept"),
    [([1], ["made"], 0), ([-1, -1, 1], ["made"], 2), ([1, 2], [GONE, "made"], 1)],
)
def test_a_controller_that_is_just_elected_is_waited_for(
    controllers: list[int], answers: list[Any], slept: int
) -> None:
    cluster = Cluster(controllers, answers)

    assert create(cluster) == "made"
    assert cluster.slept == slept


def test_a_change_that_may_have_been_made_is_not_sent_again() -> None:
    cluster = Cluster([1], [CUT, "made twice"])
    with pytest.raises(ConnectionResetError):
        create(cluster)
    assert cluster.lost == 1  # the link that still owes an answer
    with pytest.raises(ConnectionResetError):
        delete(Cluster([1], [CUT, deleted(ErrorCode.NONE)]))


def test_a_cluster_without_controller_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([-1], [])
    clock = itertools.count(step=4)  # 4 s later at each look
    with monkeypatch.context() as patch:
        patch.setattr("time.monotonic", lambda: next(clock))
        with pytest.raises(ClientError, match="the cluster of h:1 has no controller now"):
            create(cluster)

    assert cluster.slept == 1


def test_a_controller_that_is_away_is_told_as_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([1], [GONE, GONE])
    clock = itertools.count(step=4)  # 4 s later at each look
    with monkeypatch.context() as patch:
        patch.setattr("time.monotonic", lambda: next(clock))
        with pytest.raises(
            ClientError, match="broker 1, the controller, cannot be reached"
        ) as away:
            create(cluster)

    assert away.value.code is ExitCode.CANNOT_CONNECT


def test_a_coordinator_that_has_moved_is_asked_where_it_is_now() -> None:
    moved = deleted(ErrorCode.NOT_COORDINATOR)
    cluster = Cluster([1], [GONE, moved, deleted(ErrorCode.NONE)])

    assert delete(cluster) == ErrorCode.NONE
    assert cluster.slept == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [(None, "offsets cannot be made"), (TimeoutError("h:1 gave no answer"), "there is no __consu")],
)
def test_offsets_that_have_no_topic_and_get_none_are_told(
    error: Exception | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutOffsets(Cluster):
        def topic(self, name: str) -> TopicView:
            return TopicView(name=name, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, leaders={})

        def ask_any(self, _request: Any) -> FindCoordinatorResponse:
            if error is not None:
                raise error
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return FindCoordinatorResponse(error_code=code, error_message="offsets cannot be made")

    cluster = WithoutOffsets([1], [])
    clock = itertools.count(step=4)  # 4 s later at each look
    with monkeypatch.context() as patch:
        patch.setattr("time.monotonic", lambda: next(clock))
        with pytest.raises(ClientError, match=f"group g has no coordinator now: {reason}"):
            check_coordinator_partition(links(cluster), "g")

    assert cluster.slept == 1


def test_a_coordinator_that_is_not_for_us_is_final() -> None:
    cluster = Cluster([1], [])
    cluster.coordinator_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        delete(cluster)
    assert cluster.slept == 0


@pytest.mark.parametrize(
    ("leaders", "sentence"),
    [
        ({0: 1, 1: 2}, None),
        (
            {0: 3, 1: 2, 2: 3},
            "__consumer_offsets-0, __consumer_offsets-2: their leader does not an",
        ),
        (
            {0: 1, 1: 3},
            "nobody knows the groups that are kept in __consumer_offsets-1: its leade",
        ),
        ({0: -1, 1: 3}, "__consumer_offsets-0 has no leader"),
    ],
)
def test_groups_of_a_broker_that_does_not_answer_are_told_by_nobody(
    leaders: dict[int, int], sentence: str | None
) -> None:
    class WithSilentBroker(Cluster):
        silent = MappingProxyType({3: GONE})

        def topic(self, name: str) -> TopicView:
            return TopicView(name=name, code=ErrorCode.NONE, leaders=leaders)

    told = links(WithSilentBroker([1], []))
    if sentence is None:
        check_all_listed(told, GROUP)
    else:
        with pytest.raises(ClientError, match=sentence):
            check_all_listed(told, GROUP)
