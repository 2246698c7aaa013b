"""Laws of consumer groups, which hold whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import AWAY, Member, each_partition
from kbroker.coordinator.consumer_group.record_values import MemberState
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.errors import ErrorCode
from tests.faults.group_clients import GROUP, Client, Sent
from tests.faults.group_log import LogReader, summary, summary_of_offsets

if TYPE_CHECKING:
    from tests.fakes.brokers.group_broker import GroupBroker
    from tests.faults.group_simulation import GroupHistory

_GONE = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Facts(NamedTuple):
    """The coordinator's view of a member when a heartbeat of it arrived."""

    arrived_ms: float
    session_timeout_ms: int
    epochs: tuple[int, ...]  # that count: the member's own, and the one before; none of a new one
    ends: int  # times that the group had been deleted


class GroupLaws:
    """The model beside one history."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._written = LogReader(confirmed=False)
        self._stored = LogReader(confirmed=True)
        self._epochs: dict[str, int] = {}  # by member id: the last that was answered
        self._group_epoch = 0  # the newest that is stored
        self._ends = 0  # times that the group was deleted
        self._revoking: set[str] = set()  # members that had partitions to give up, now or at last
        self._away: dict[str, tuple[str, float]] = {}  # by instance id: the member, and how long

    def group(self) -> ConsumerGroup | None:
        found = self._history.broker.groups.store.find(GROUP)
        return found.group if isinstance(found, CoordinatedConsumerGroup) else None

    # ---- at every moment

    def check(self) -> None:
        history = self._history
        log = history.broker.log()
        self._written.read(log)
        self._stored.read(log)
        self._never_back()
        if history.is_loaded:
            self._is_as_written()
        group = self.group()
        if group is not None:
            self._one_owner(group)
            self._owners_follow(group)
            self._clients_have_theirs(group)
            self._note_who_revokes(group)
            self._who_is_away_stays(group)

    def _never_back(self) -> None:
        """Compare the group's epoch that is stored with that of before."""
        stored = self._stored.group
        if stored is None or self._stored.ends != self._ends:
            self._ends = self._stored.ends
            self._group_epoch = 0
            self._epochs.clear()
            self._away.clear()
        if stored is None:
            return
        assert stored.epoch >= self._group_epoch, "the group's epoch went back"
        self._group_epoch = stored.epoch
        for member_id, epoch in self._epochs.items():
            member = stored.members.get(member_id)
            if member is None:
                assert stored.epoch >= epoch, f"{member_id} was answered {epoch}, and never was"
            elif member.epoch != AWAY:
                assert member.epoch >= epoch, f"{member_id} was answered {epoch}"

    def _is_as_written(self) -> None:
        shard = self._history.shard
        if shard.next_offset != shard.log.log_end_offset:
            return  # what is on its way to the log is in memory, and not there
        group, written = self.group(), self._written.group
        if group is None or written is None:
            assert group is None or not group.is_recorded, "the log has no group"
            assert written is None or not written.is_recorded, "the log has a group"
        else:
            assert summary(group) == summary(written), "memory is not what the log says"
        found = self._history.broker.groups.store.find(GROUP)
        offsets = {"committed": {}, "pending": {}}
        if found is not None:
            offsets = summary_of_offsets(found.offsets)
        assert offsets == summary_of_offsets(self._written.offsets), "offsets are not in the log"

    def _one_owner(self, group: ConsumerGroup) -> None:
        owners: dict[Any, str] = {}
        for member in group.members.values():
            for place in (*each_partition(member.assigned), *each_partition(member.revoking)):
                other = owners.setdefault(place, member.member_id)
                assert other == member.member_id, f"{place} of {other} and {member.member_id}"

    def _owners_follow(self, group: ConsumerGroup) -> None:
        """Compare what follows from members with what they say."""
        expected = {
            (topic_id.int, partition): member.epoch
            for member in group.members.values()
            for had in (member.assigned, member.revoking)
            for topic_id, partition in each_partition(had)
        }
        assert dict(group.owners.items()) == expected, "derived owners differ"
        counts: dict[str, int] = {}
        assignors: dict[str, int] = {}
        patterns: dict[str, int] = {}
        for member in group.members.values():
            for topic in member.metadata.subscribed_topic_names:
                counts[topic] = counts.get(topic, 0) + 1
            name = member.metadata.server_assignor
            if name is not None:
                assignors[name] = assignors.get(name, 0) + 1
            if member.pattern:
                patterns[member.pattern] = patterns.get(member.pattern, 0) + 1
        assert dict(group.topic_counts.items()) == counts, "derived topics differ"
        assert dict(group.assignor_counts.items()) == assignors, "derived assignors differ"
        assert dict(group.pattern_counts.items()) == patterns, "derived patterns differ"
        static = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
        assert dict(group.static_members.items()) == static, "derived static members differ"

    def _clients_have_theirs(self, group: ConsumerGroup) -> None:
        """Look for two members that read the same partition."""
        readers: dict[Any, Client] = {}
        for client in self._history.clients:
            member = group.members.stored(client.member_id)
            if client.is_gone or member is None or client.epoch not in _epochs(member):
                continue
            for place in client.has:
                other = readers.setdefault(place, client)
                assert other is client, f"{place} is read by {other.name} and {client.name}"

    def _note_who_revokes(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                self._revoking.add(member.member_id)
            else:
                self._revoking.discard(member.member_id)

    def _who_is_away_stays(self, group: ConsumerGroup) -> None:
        """Look for static members that left for a while: they stay as long as a session."""
        now_ms = self._history.time.monotonic_ms()
        for instance_id, (member_id, until_ms) in list(self._away.items()):
            if now_ms >= until_ms or member_id in self._revoking:
                del self._away[instance_id]
            else:
                assert instance_id in group.static_members, f"{instance_id} was to come back"

    # ---- requests and answers

    def facts(self, broker: GroupBroker, member_id: str) -> Facts:
        """Note what counts as a heartbeat arrives."""
        found = broker.groups.store.find(GROUP)
        epochs: tuple[int, ...] = ()
        if isinstance(found, CoordinatedConsumerGroup):
            member = found.group.members.get(member_id)
            epochs = () if member is None else _epochs(member)
        timeout_ms = self._history.settings.session_timeout_ms
        self._stored.read(broker.log())
        return Facts(self._history.time.monotonic_ms(), timeout_ms, epochs, self._stored.ends)

    def sessions_begin_again(self) -> None:
        """Another coordinator leads, or another time-out holds: a session may be as short as that
        from now on.
        """
        until_ms = self._history.time.monotonic_ms() + self._history.settings.session_timeout_ms
        for client in self._history.clients:
            client.alive_until_ms = min(client.alive_until_ms, until_ms)
        for instance_id, (member_id, before_ms) in self._away.items():
            self._away[instance_id] = member_id, min(before_ms, until_ms)

    def joins(self, instance_id: str | None) -> None:
        """A process may take over a static member from now on."""
        self._away.pop(instance_id or "", None)

    def answered(self, client: Client, sent: Sent) -> None:
        """Hold an answer against the log: it has what the answer rests on."""
        response, facts = sent.response, sent.facts
        code = ErrorCode(response.error_code)
        if code in _GONE and sent.epoch > 0:
            is_late = facts.arrived_ms >= client.alive_until_ms
            assert is_late or client.member_id in self._revoking, f"{client.name} was alive"
        if code is not ErrorCode.NONE:
            return
        member_id, epoch = response.member_id, response.member_epoch
        if sent.epoch > 0:
            assert sent.epoch in facts.epochs, f"{client.name} is in {sent.epoch}, which is over"
        self._stored.read(self._history.broker.log())
        if self._stored.ends != facts.ends:  # it was deleted since
            self._epochs.pop(member_id, None)
            return
        stored = self._stored.group
        assert stored is not None, "answered, and the log has no group"
        assert stored.epoch >= epoch, f"answered epoch {epoch}, the log has {stored.epoch}"
        member = stored.members.get(member_id)
        if member is not None and member.epoch != AWAY:
            assert member.epoch >= epoch, f"answered epoch {epoch}, the log has {member.epoch}"
        if client.epoch:
            assert epoch >= self._epochs.get(member_id, 0), "an epoch went back"
        self._epochs[member_id] = epoch
        client.alive_until_ms = facts.arrived_ms + facts.session_timeout_ms

    def left(self, client: Client, sent: Sent) -> None:
        """A process has left, a static one for a while."""
        self._epochs.pop(client.member_id, None)
        response = sent.response
        if response.error_code == 0 and response.member_epoch == AWAY:
            assert client.instance_id is not None
            self._away[client.instance_id] = client.member_id, client.alive_until_ms

    # ---- at rest

    def is_at_rest(self) -> bool:
        try:
            self.at_rest()
        except AssertionError:
            return False
        return True

    def at_rest(self) -> None:
        group = self.group()
        live = [client for client in self._history.clients if not client.is_gone]
        if group is None:
            assert not live, "the group is lost"
            return
        target_epoch = group.target_metadata.assignment_epoch
        assert not group.members or target_epoch == group.epoch, "the target was never computed"
        for client in live:
            self._has_reached_its_target(group, client, target_epoch)
        self._everything_is_read(group)

    def _has_reached_its_target(self, group: ConsumerGroup, client: Client, epoch: int) -> None:
        member = group.members.get(client.member_id)
        if member is None:
            assert len(group.members) >= self._history.max_size, f"{client.name} is lost"
            return
        assert member.current.state is MemberState.STABLE, f"{client.name} never got there"
        assert client.epoch == member.epoch == epoch, f"{client.name} is behind"
        has = set(each_partition(member.assigned))
        target = {
            (topic_id, each)
            for topic_id, partitions in group.target(member.member_id).items()
            for each in partitions
        }
        assert has == target == client.has, f"{client.name} has {client.has}, not {target}"

    def _everything_is_read(self, group: ConsumerGroup) -> None:
        members = [
            each
            for each in self._history.clients
            if not each.is_gone and each.member_id in group.members
        ]
        assert len(members) == len(group.members), "a member is nobody"
        cluster = self._history.cluster
        names = {name for name in cluster.topics if any(each.wants(name) for each in members)}
        wanted = {
            (topic_id, index)
            for name, (topic_id, count) in cluster.counts.items()
            if name in names
            for index in range(count)
        }
        read = {place for each in members for place in each.has}
        assert read == wanted, f"{wanted ^ read} is not read, or is gone"
        if members:
            expected = cluster.hash_of(names)
            assert group.metadata.metadata_hash == expected, "the hash is of other topics"
        for member in members:
            for topic_id, _ in member.has:
                name = next(name for name, each in cluster.topics.items() if each[0] == topic_id)
                assert member.wants(name), f"{member.name} reads {name}, which it did not ask for"


def _epochs(member: Member) -> tuple[int, ...]:
    return member.epoch, member.current.previous_member_epoch
