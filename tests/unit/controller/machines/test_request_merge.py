"""Many requests that wait for one broker become few that come to the same."""

from __future__ import annotations

from uuid import UUID

from kbroker.controller.machines.request_merge import merge_requests
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.fakes.replication_cluster import (
    leader_and_isr,
    partition_metadata,
    stop_replica,
    update_metadata,
)


def test_one_request_of_each_kind_is_left_and_each_partition_has_its_last_order() -> None:
    first, last = leader_and_isr("t", leader_epoch=1), leader_and_isr("t", leader_epoch=2)
    first.topic_states[0].partition_states[0].is_new = True
    metadata = [update_metadata(("t", partition_metadata(leader_epoch=e))) for e in (1, 2)]

    lead, news = merge_requests([first, metadata[0], last, metadata[1]])

    assert isinstance(news, UpdateMetadataRequest)
    (state,) = lead.topic_states[0].partition_states
    assert (state.leader_epoch, state.is_new) == (2, True)
    assert [s.leader_epoch for s in news.topic_states[0].partition_states] == [2]
    assert not last.topic_states[0].partition_states[0].is_new, "a queued request was changed"


def test_a_stop_ends_what_was_ordered_before_and_stays_before_what_comes_after() -> None:
    again = leader_and_isr("t", leader_epoch=0, topic_id=UUID(int=5))

    stop, lead = merge_requests([leader_and_isr("t"), stop_replica("t"), again])

    assert isinstance(stop, StopReplicaRequest)
    assert lead.topic_states[0].topic_id == UUID(int=5)


def test_what_was_to_be_deleted_is_deleted_whatever_stop_comes_after() -> None:
    stops = [stop_replica("t"), stop_replica("t", delete=False, leader_epoch=3)]

    (stop,) = merge_requests(stops)

    assert stop.topic_states[0].partition_states[0].delete_partition
    assert not stops[1].topic_states[0].partition_states[0].delete_partition
