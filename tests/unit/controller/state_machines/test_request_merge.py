"""Merged requests come to the same as all of them, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.controller.state_machines.request_merge import RequestMerge
from kbroker.model import LEADER_DURING_DELETE, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.replication.metadata_cache import FULL_UPDATE
from tests.fakes.running.counted_steps import steps_of

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 1))
IDS = {"a": UUID(int=1), "b": UUID(int=2)}


def merge_requests(requests: Iterable[ControlRequest]) -> list[ControlRequest]:
    merge = RequestMerge(requests)
    assert list(merge.steps()) == [], "few partitions"
    return merge.merged


def lead(partition: TopicPartition, epoch: int, *, is_new: bool = False) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        topic_name=partition.topic,
        partition_index=partition.partition,
        leader=epoch % 3,
        leader_epoch=epoch,
        is_new=is_new,
    )
    leader = LeaderAndIsrRequest.LeaderAndIsrLiveLeader(
        broker_id=epoch % 3, host_name=f"h{epoch}", port=1
    )
    return LeaderAndIsrRequest(
        controller_epoch=7,
        topic_states=[
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=partition.topic,
                topic_id=IDS[partition.topic],
                partition_states=[state],
            )
        ],
        live_leaders=[leader],
    )


def stop(partition: TopicPartition, epoch: int, *, delete: bool = False) -> StopReplicaRequest:
    state = StopReplicaRequest.StopReplicaPartitionState(
        partition_index=partition.partition, leader_epoch=epoch, delete_partition=delete
    )
    topic = StopReplicaRequest.StopReplicaTopicState(
        topic_name=partition.topic, partition_states=[state]
    )
    return StopReplicaRequest(controller_epoch=7, topic_states=[topic])


def metadata(partition: TopicPartition, epoch: int, brokers: int = 1) -> UpdateMetadataRequest:
    state = UpdateMetadataRequest.UpdateMetadataPartitionState(
        topic_name=partition.topic,
        partition_index=partition.partition,
        leader=LEADER_DURING_DELETE if epoch % 5 == 0 else epoch % 3,
        leader_epoch=epoch,
    )
    topic = UpdateMetadataRequest.UpdateMetadataTopicState(
        topic_name=partition.topic, topic_id=IDS[partition.topic], partition_states=[state]
    )
    live = [UpdateMetadataRequest.UpdateMetadataBroker(id=b) for b in range(brokers)]
    return UpdateMetadataRequest(controller_epoch=7, topic_states=[topic], live_brokers=live)


class ModelBroker:
    """What a broker comes to know; leader epochs decide which orders it takes."""

    def __init__(self) -> None:
        self.leading: dict[TopicPartition, int] = {}
        self.made_as_new: set[TopicPartition] = set()
        self.metadata: dict[TopicPartition, tuple[int, int]] = {}
        self.live: list[int] = []

    def take(self, request: ControlRequest) -> None:
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if isinstance(state, LeaderAndIsrRequest.LeaderAndIsrPartitionState):
                    if partition not in self.leading and state.is_new:
                        self.made_as_new.add(partition)
                    self.leading[partition] = state.leader_epoch
                elif isinstance(state, StopReplicaRequest.StopReplicaPartitionState):
                    self.leading.pop(partition, None)
                    if state.delete_partition:
                        self.made_as_new.discard(partition)
                else:
                    self.metadata[partition] = (state.leader, state.leader_epoch)
        if isinstance(request, UpdateMetadataRequest):
            self.live = [broker.id for broker in request.live_brokers]

    def facts(self) -> object:
        return self.leading, self.metadata, self.live


KINDS = st.sampled_from(["lead", "new", "stop", "delete", "metadata"])
STEPS = st.lists(st.tuples(KINDS, PARTITIONS, st.integers(1, 4)), max_size=25)


def requests_of(steps: list[tuple[str, TopicPartition, int]]) -> list[ControlRequest]:
    made: list[ControlRequest] = []
    for epoch, (kind, partition, brokers) in enumerate(steps):
        if kind in ("lead", "new"):
            made.append(lead(partition, epoch, is_new=kind == "new"))
        elif kind in ("stop", "delete"):
            made.append(stop(partition, epoch, delete=kind == "delete"))
        else:
            made.append(metadata(partition, epoch, brokers))
    return made


@settings(deadline=None)
@given(STEPS)
def test_a_broker_knows_the_same_afterwards(steps: list[tuple[str, TopicPartition, int]]) -> None:
    one_by_one, merged = ModelBroker(), ModelBroker()
    for request in requests_of(steps):
        one_by_one.take(request)
    for request in merge_requests(requests_of(steps)):
        merged.take(request)
    assert merged.facts() == one_by_one.facts()


def names_brokers_alone(request: ControlRequest) -> bool:
    return isinstance(request, UpdateMetadataRequest) and not request.topic_states


@settings(deadline=None)
@given(STEPS)
def test_there_is_one_request_of_a_kind_and_a_partition_is_in_it_once(
    steps: list[tuple[str, TopicPartition, int]],
) -> None:
    merged = merge_requests(requests_of(steps))
    kinds = [type(request) for request in merged if not names_brokers_alone(request)]
    order = [StopReplicaRequest, LeaderAndIsrRequest, UpdateMetadataRequest]
    assert kinds == [kind for kind in order if kind in kinds]
    assert sum(map(names_brokers_alone, merged)) <= 1
    for request in merged:
        named = [
            (topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        assert len(named) == len(set(named))


@settings(deadline=None)
@given(STEPS, st.integers(0, 25))
def test_merging_what_was_merged_before_changes_nothing(
    steps: list[tuple[str, TopicPartition, int]], cut: int
) -> None:
    requests = requests_of(steps)
    in_two = merge_requests([*merge_requests(requests[:cut]), *requests[cut:]])
    one, two = ModelBroker(), ModelBroker()
    for request in merge_requests(requests):
        one.take(request)
    for request in in_two:
        two.take(request)
    assert one.facts() == two.facts()


A0 = TopicPartition("a", 0)


def test_a_log_that_was_to_be_made_as_new_still_is() -> None:
    (merged,) = merge_requests([lead(A0, 1, is_new=True), lead(A0, 2)])
    assert isinstance(merged, LeaderAndIsrRequest)
    state = merged.topic_states[0].partition_states[0]
    assert (state.leader_epoch, state.is_new) == (2, True)
    assert [leader.broker_id for leader in merged.live_leaders] == [1, 2]


def test_a_replica_that_was_to_be_deleted_still_is() -> None:
    (merged,) = merge_requests([stop(A0, 1, delete=True), stop(A0, 2)])
    assert isinstance(merged, StopReplicaRequest)
    state = merged.topic_states[0].partition_states[0]
    assert (state.leader_epoch, state.delete_partition) == (2, True)


def test_a_topic_made_anew_keeps_the_stop_of_the_one_before() -> None:
    stopped, led = merge_requests(
        [lead(A0, 1), stop(A0, -2, delete=True), lead(A0, 0, is_new=True)]
    )
    assert isinstance(stopped, StopReplicaRequest)
    assert isinstance(led, LeaderAndIsrRequest)
    assert led.topic_states[0].partition_states[0].leader_epoch == 0


def test_leaders_are_known_as_brokers_before_anybody_is_to_follow_them() -> None:
    """Apache Kafka's brokers do not follow a leader that no UpdateMetadata has named yet."""
    come, led, told = metadata(A0, 1, brokers=2), lead(A0, 2), metadata(A0, 2, brokers=3)
    come.type = FULL_UPDATE

    merged = merge_requests([come, led, told])

    first, second, third = merged
    assert isinstance(first, UpdateMetadataRequest)
    assert isinstance(second, LeaderAndIsrRequest)
    assert isinstance(third, UpdateMetadataRequest)
    assert [broker.id for broker in first.live_brokers] == [0, 1, 2]
    assert (first.topic_states, first.type, first.controller_epoch) == ([], 0, 7)
    assert (third.topic_states[0].partition_states[0].leader_epoch, third.type) == (2, FULL_UPDATE)
    assert merge_requests(merged) == merged


def test_metadata_without_partitions_still_tells_of_the_brokers() -> None:
    request = metadata(A0, 1, brokers=3)
    request.topic_states = []
    (merged,) = merge_requests([request])
    assert isinstance(merged, UpdateMetadataRequest)
    assert [broker.id for broker in merged.live_brokers] == [0, 1, 2]


def test_what_a_full_update_does_not_name_stays_gone() -> None:
    first, full, later = (metadata(TopicPartition(name, 0), 1) for name in ("a", "b", "a"))
    full.type = FULL_UPDATE

    (of_both,) = merge_requests([first, full])
    (of_all,) = merge_requests([first, full, later])

    assert isinstance(of_both, UpdateMetadataRequest)
    assert isinstance(of_all, UpdateMetadataRequest)
    assert (of_both.type, of_all.type) == (FULL_UPDATE, FULL_UPDATE)
    assert [topic.topic_name for topic in of_both.topic_states] == ["b"]
    assert [topic.topic_name for topic in of_all.topic_states] == ["b", "a"]


def test_requests_that_are_merged_are_not_changed_themselves() -> None:
    """One of them may be on its way to the broker, or to another one."""
    first, last = lead(A0, 1, is_new=True), lead(A0, 2)
    deleting, stopping = stop(A0, 1, delete=True), stop(A0, 2)
    merge_requests([deleting, stopping, first, last])
    assert not last.topic_states[0].partition_states[0].is_new
    assert not stopping.topic_states[0].partition_states[0].delete_partition
    assert len(last.live_leaders) == 1


def test_very_many_partitions_are_merged_in_small_steps() -> None:
    partitions = [TopicPartition(topic, number) for topic in "ab" for number in range(3_000)]
    requests = [make(partition, 1) for make in (lead, stop, metadata) for partition in partitions]
    merge = RequestMerge(requests)
    steps = merge.steps()

    works = [steps_of(lambda: next(steps, None)) for _ in range(40)]

    assert [type(request) for request in merge.merged] == [
        StopReplicaRequest,
        UpdateMetadataRequest,
    ]
    assert max(works) < 20 * 1_024 < sum(works) / 10
