"""The groups this broker coordinates, by the partition of `__consumer_offsets` that keeps them.

Law: owned by the event loop. A group is here exactly while this broker leads its partition and has
loaded it; a group that is found here needs no further check. All effects of group machines are run
here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.append_errors import append_errors
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.join_sync import StaticMemberStored, on_static_member_stored
from kbroker.coordinator.group.rebalance import (
    AssignmentStored,
    Step,
    TimerKey,
    on_assignment_stored,
)
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.group.sessions import close, on_timer, start_sessions
from kbroker.coordinator.runtime import CoordinatorRuntime, PendingReply
from kbroker.effects import Append, CancelTimer, Effect, KeyValue, Reply, SetTimer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.replication.partition import Partition

_log = logging.getLogger(__name__)

_METADATA_ERRORS = {
    **append_errors(too_large=ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}

_LOAD_AGAIN_MS = 1000.0


class CoordinatedPartition:
    """A partition of `__consumer_offsets` that this broker leads."""

    __slots__ = ("is_loaded", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.is_loaded = False


class CoordinatedGroup:
    """A group and where it is kept."""

    __slots__ = ("group", "home")

    def __init__(self, group: Group, home: CoordinatedPartition) -> None:
        self.group = group
        self.home = home


class GroupStore:
    """Finds, loads, unloads and drives groups."""

    def __init__(
        self,
        config: GroupConfig,
        runtime: CoordinatorRuntime,
        partition_count: Callable[[], int],
    ) -> None:
        """`partition_count` says how many partitions `__consumer_offsets` has, or would have."""
        self.config = config
        self.runtime = runtime
        self._partition_count = partition_count
        self._partitions: dict[int, CoordinatedPartition] = {}
        self._groups: dict[str, CoordinatedGroup] = {}
        self.find = self._groups.get  # by group id; None for a group that is not here

    # ---- look up

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps a group, by its Java hash code."""
        return abs(java_hash(group_id)) % self._partition_count()

    def status(self, group_id: str) -> ErrorCode:
        """NONE when this broker answers for the group, whether or not the group exists."""
        home = self._partitions.get(self.partition_for(group_id))
        if home is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if home.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def is_loading(self) -> bool:
        """True while some partition is being read."""
        return any(not home.is_loaded for home in self._partitions.values())

    def is_ready(self, partition: int) -> bool:
        """True when the groups of a partition can be used here."""
        home = self._partitions.get(partition)
        return home is not None and home.is_loaded

    def __iter__(self) -> Iterator[CoordinatedGroup]:
        return iter(list(self._groups.values()))

    def create(self, group_id: str) -> CoordinatedGroup:
        """A new, empty group; `status` must have been NONE."""
        home = self._partitions[self.partition_for(group_id)]
        assert home.is_loaded
        assert group_id not in self._groups
        created = self._groups[group_id] = CoordinatedGroup(Group(group_id), home)
        return created

    def forget(self, coordinated: CoordinatedGroup, code: ErrorCode) -> None:
        """The group is no more, here or at all: whoever waits is told `code`."""
        step = self.step(coordinated)
        del self._groups[coordinated.group.group_id]
        close(step, code)
        self.run(coordinated, step.effects)

    def drop_if_untouched(self, coordinated: CoordinatedGroup) -> None:
        """A group made for a member or a commit that was refused would only take up room."""
        group = coordinated.group
        if self._groups.get(group.group_id) is coordinated and not (
            group.generation_id or group.members or group.pending_members or bool(group.offsets)
        ):
            self._groups.pop(group.group_id, None)

    # ---- drive

    def step(self, coordinated: CoordinatedGroup) -> Step:
        """An input to a group, happening now."""
        return Step(coordinated.group, self.config, self.runtime.now())

    def run(self, coordinated: CoordinatedGroup, effects: Iterable[Effect]) -> None:
        """Do what a machine asked for, in order."""
        for effect in effects:
            if isinstance(effect, Reply):
                assert isinstance(effect.correlation, PendingReply)
                effect.correlation.answer(effect.response)
            elif isinstance(effect, SetTimer):
                self._set_timer(coordinated, effect)
            elif isinstance(effect, CancelTimer):
                self.runtime.cancel_timer((coordinated.group.group_id, effect.key))
            else:
                self._append(coordinated, effect)

    def _set_timer(self, coordinated: CoordinatedGroup, effect: SetTimer) -> None:
        key = effect.key
        assert isinstance(key, TimerKey)

        def fire() -> None:
            step = self.step(coordinated)
            on_timer(step, key)
            self.run(coordinated, step.effects)

        self.runtime.set_timer((coordinated.group.group_id, key), effect.deadline_ms, fire)

    def _append(self, coordinated: CoordinatedGroup, effect: Append) -> None:
        def appended(error: ErrorCode, _log_offset: int) -> None:
            error = _METADATA_ERRORS.get(error, error)
            step = self.step(coordinated)
            token = effect.token
            if coordinated.group.state is GroupState.DEAD:
                return  # unloaded or deleted meanwhile; whoever waited has been answered
            if isinstance(token, AssignmentStored):
                on_assignment_stored(step, token, error)
            elif isinstance(token, StaticMemberStored):
                on_static_member_stored(step, token, error)
            elif error is not ErrorCode.NONE:
                _log.warning(
                    "Empty group %s not stored: %s", coordinated.group.group_id, error.name
                )
            self.run(coordinated, step.effects)

        self.runtime.append(coordinated.home.topic_partition, effect.records, appended)

    def append_tombstones(
        self, coordinated: CoordinatedGroup, tombstones: list[KeyValue]
    ) -> ErrorCode:
        """Write that keys are gone; the first refusal.

        A clean-up need not care: what is there again after the next load expires again.
        """
        refusals: list[ErrorCode] = []

        def appended(error: ErrorCode, _log_offset: int) -> None:
            if error is not ErrorCode.NONE:
                refusals.append(error)
                _log.warning("Tombstones of group %s: %s", coordinated.group.group_id, error.name)

        if tombstones:
            home = coordinated.home.topic_partition
            self.runtime.append_unacknowledged(home, tombstones, appended)
        return refusals[0] if refusals else ErrorCode.NONE

    # ---- leadership

    def lead(self, partition: Partition) -> None:
        """Read the groups of a partition this broker leads from now on."""
        topic_partition = partition.topic_partition
        if topic_partition.partition in self._partitions:
            return  # led before, with another ISR or epoch: what is in memory is right
        home = CoordinatedPartition(topic_partition)
        self._partitions[topic_partition.partition] = home
        self._begin_load(home, partition.log)

    def _begin_load(self, home: CoordinatedPartition, log: Any) -> None:
        def steps() -> Iterator[None]:
            try:
                yield from self._load(home, log)
            except KafkaError as error:  # it has failed, and is given up soon, or it passes
                _log.warning("%s cannot be loaded yet: %s", home.topic_partition, error)
                self.runtime.set_timer(home, self.runtime.monotonic_ms() + _LOAD_AGAIN_MS, again)

        def again() -> None:
            if self._leads(home):
                self._begin_load(home, log)

        self.runtime.run_sliced(steps(), f"load {home.topic_partition}")

    def _load(self, home: CoordinatedPartition, log: Any) -> Iterator[None]:
        replay = GroupReplay()
        loaded: dict[str, CoordinatedGroup] = {}
        for _ in self.runtime.replay(home.topic_partition, log, replay):
            yield
            if not self._leads(home):
                return
        for group in replay.groups():
            loaded[group.group_id] = CoordinatedGroup(group, home)
            yield
        if not self._leads(home):
            return
        self._groups.update(loaded)
        home.is_loaded = True
        for coordinated in loaded.values():
            if coordinated.group.members:
                step = self.step(coordinated)
                start_sessions(step)
                self.run(coordinated, step.effects)

    def _leads(self, home: CoordinatedPartition) -> bool:
        """False once it has been given up, even if it is led anew."""
        return self._partitions.get(home.topic_partition.partition) is home

    def resign(self, topic_partition: TopicPartition) -> None:
        """Another broker coordinates these groups now."""
        home = self._partitions.pop(topic_partition.partition, None)
        if home is None:
            return
        for coordinated in [each for each in self._groups.values() if each.home is home]:
            self.forget(coordinated, ErrorCode.NOT_COORDINATOR)

    def resign_all(self) -> None:
        """The broker stops: it answers for no group any more."""
        for home in list(self._partitions.values()):
            self.resign(home.topic_partition)


def is_group_partition(topic_partition: TopicPartition) -> bool:
    """True for the partitions of `__consumer_offsets`."""
    return topic_partition.topic == GROUP_METADATA_TOPIC


def java_hash(text: str) -> int:
    """String.hashCode, signed; over UTF-16 code units.

    The smallest int counts as 0, as Kafka has it.
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return value - 0x1_0000_0000 if value > 0x7FFFFFFF else value
