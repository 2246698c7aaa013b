"""A link that broke is opened once more, and who asked can tell."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.client import cluster_links
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import delete_group
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorResponse
from kbroker.protocol.messages.metadata import MetadataResponse


class Broker:
    """Has the groups of a set; breaks its link after each request that `loses` names."""

    def __init__(self, *groups: str) -> None:
        self.groups = set(groups)
        self.loses: list[str] = []

    def __call__(self, *_: Any) -> Broker:
        return self

    def close(self) -> None:
        pass

    def ask(self, request: Any) -> Any:
        name = type(request).__name__
        answer = self._answer(request)
        if name in self.loses:
            self.loses.remove(name)
            raise ConnectionResetError("it closed the connection")
        return answer

    def _answer(self, request: Any) -> Any:
        if not isinstance(request, DeleteGroupsRequest):
            broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1)
            is_metadata = type(request).__name__ == "MetadataRequest"
            return (
                MetadataResponse(brokers=[broker])
                if is_metadata
                else FindCoordinatorResponse(node_id=1)
            )
        (name,) = request.groups_names
        code = ErrorCode.NONE if name in self.groups else ErrorCode.GROUP_ID_NOT_FOUND
        self.groups.discard(name)
        result = DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=int(code))
        return DeleteGroupsResponse(results=[result])


@pytest.mark.parametrize(
    ("groups", "loses", "code"),
    [
        (["g"], [], ErrorCode.NONE),
        (["g"], ["DeleteGroupsRequest"], ErrorCode.NONE),
        ([], [], ErrorCode.GROUP_ID_NOT_FOUND),
        ([], ["FindCoordinatorRequest"], ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_group_whose_deletion_was_asked_for_twice_is_deleted(
    groups: list[str], loses: list[str], code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(*groups)
    monkeypatch.setattr(cluster_links, "BrokerLink", broker)
    monkeypatch.setattr(cluster_links, "check_reachable", lambda _: None)
    links = ClusterLinks("h:1")
    broker.loses = loses

    assert delete_group(links, "g") == code
    assert broker.groups == set()
