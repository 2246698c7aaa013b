"""Laws of consumer groups, which hold whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import each_partition
from kbroker.coordinator.consumer_group.record_values import MemberState
from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kbroker.record.record_batch import read_header, records
from tests.fakes.brokers.group_broker import OffsetsLog
from tests.faults.group_clients import GROUP, Client

if TYPE_CHECKING:
    from tests.faults.group_simulation import GroupHistory


class GroupLaws:
    """The model beside one history."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._epochs: dict[str, int] = {}  # by member id: the last that was answered
        self._group_epoch = 0

    def group(self) -> ConsumerGroup | None:
        found = self._history.broker.groups.store.find(GROUP)
        return found.group if isinstance(found, CoordinatedConsumerGroup) else None

    # ---- at every moment

    def check(self) -> None:
        group = self.group()
        if group is None:
            return
        self._one_owner(group)
        self._owners_follow(group)
        self._clients_have_theirs(group)
        if group.last_unstored_write is None and not self._history.replicas.waiting:
            self._is_as_loaded(group)

    def _one_owner(self, group: ConsumerGroup) -> None:
        owners: dict[Any, str] = {}
        for member in group.members.values():
            for place in (*each_partition(member.assigned), *each_partition(member.revoking)):
                other = owners.setdefault(place, member.member_id)
                assert other == member.member_id, f"{place} of {other} and {member.member_id}"

    def _owners_follow(self, group: ConsumerGroup) -> None:
        """Compare what follows from members with what they say."""
        expected = {
            place: member.epoch
            for member in group.members.values()
            for place in (*each_partition(member.assigned), *each_partition(member.revoking))
        }
        assert dict(group.owners.items()) == expected, "derived owners differ"
        counts: dict[str, int] = {}
        for member in group.members.values():
            for topic in member.metadata.subscribed_topic_names:
                counts[topic] = counts.get(topic, 0) + 1
        assert dict(group.topic_counts.items()) == counts, "derived topics differ"
        static = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
        assert dict(group.static_members.items()) == static, "derived static members differ"

    def _clients_have_theirs(self, group: ConsumerGroup) -> None:
        """Look for two members that read the same partition."""
        readers: dict[Any, Client] = {}
        for client in self._history.clients:
            member = group.members.stored(client.member_id)
            if (
                client.is_gone
                or member is None
                or client.epoch
                not in (
                    member.epoch,
                    member.current.previous_member_epoch,
                )
            ):
                continue
            for place in client.has:
                other = readers.setdefault(place, client)
                assert other is client, f"{place} is read by {other.name} and {client.name}"

    def _is_as_loaded(self, group: ConsumerGroup) -> None:
        loaded = load(self._history.broker.log())
        if loaded is None:
            assert not group.is_recorded, "the log has no group"
            return
        assert summary(loaded) == summary(group), "memory is not what the log says"

    # ---- answers

    def answered(self, client: Client, response: ConsumerGroupHeartbeatResponse) -> None:
        """Hold an answer against the log: it has what the answer rests on, and no epoch goes back."""
        loaded = load(self._history.broker.log())
        assert loaded is not None, "answered, and the log has no group"
        member = loaded.members.get(response.member_id or "")
        if member is None:  # gone since
            return
        assert member.epoch >= response.member_epoch or member.epoch < 0, (
            f"answered epoch {response.member_epoch}, the log has {member.epoch}"
        )
        last = self._epochs.get(member.member_id, 0)
        if client.epoch:
            assert response.member_epoch >= last, "an epoch went back"
        self._epochs[member.member_id] = response.member_epoch

    def went_away(self, client: Client) -> None:
        self._epochs.pop(client.member_id, None)

    def killed(self) -> None:
        pass

    def loaded(self) -> None:
        """Look at a group that was loaded: its epoch has not gone back."""
        group = self.group()
        if group is None:
            return
        assert group.epoch >= self._group_epoch, "the group's epoch went back"

    # ---- at rest

    def at_rest(self) -> None:
        group = self.group()
        live = [client for client in self._history.clients if not client.is_gone]
        if group is None:
            assert not live, "the group is lost"
            return
        target_epoch = group.target_metadata.assignment_epoch
        assert not group.members or target_epoch == group.epoch, "the target was never computed"
        for client in live:
            member = group.members.get(client.member_id)
            if member is None:
                assert len(group.members) >= 5, f"{client.name} is lost"
                continue
            assert member.current.state is MemberState.STABLE, f"{client.name} never got there"
            assert client.epoch == member.epoch == target_epoch, f"{client.name} is behind"
            has = {(topic_id, each) for topic_id, each in each_partition(member.assigned)}
            target = {
                (topic_id, each)
                for topic_id, partitions in group.target(member.member_id).items()
                for each in partitions
            }
            assert has == target == client.has, f"{client.name} has {client.has}, not {target}"
        self._everything_is_read(group)

    def _everything_is_read(self, group: ConsumerGroup) -> None:
        names = group.topics()
        wanted = {
            (topic_id, index)
            for name, (topic_id, count) in self._history.topics.items()
            if name in names
            for index in range(count)
        }
        read = {
            place for member in group.members.values() for place in each_partition(member.assigned)
        }
        assert read == wanted, f"{wanted ^ read} is not read, or is gone"


def load(log: OffsetsLog) -> ConsumerGroup | None:
    """Load the group from the log as the next coordinator would."""
    replay = GroupReplay(Timeline(), ConsumerGroupReplay)
    position = 0
    while position < len(log.data):
        header = read_header(log.data, position)
        for record in records(log.data, position):
            replay.record(record.key, record.value, header.base_offset, None)
        position += header.size_bytes
    return next((group for group, _ in replay.consumer_groups() if group.group_id == GROUP), None)


def summary(group: ConsumerGroup) -> dict[str, Any]:
    """All that a group is, in words that can be compared."""
    return {
        "metadata": group.metadata,
        "target": group.target_metadata,
        "members": {each.member_id: each for each in group.members.values()},
        "targets": {name: dict(target) for name, target in group.targets.items()},
        "static": dict(group.static_members.items()),
        "owners": dict(group.owners.items()),
        "topics": dict(group.topic_counts.items()),
        "patterns": dict(group.pattern_counts.items()),
        "assignors": dict(group.assignor_counts.items()),
    }
