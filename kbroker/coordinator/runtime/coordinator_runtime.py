"""CoordinatorRuntime: what every coordinator that keeps its state in an internal topic stands on:
which partitions this broker leads, their loading, timers, long work.

Law: a machine decides (records and a reply), its shard appends the records and replays them into
the state, and the reply goes out when they are stored; see `shard`. The runtime knows nothing of
what a machine keeps, so that every kind of coordinator can use it. Everything runs on the event
loop and nothing blocks it for long; a long log is replayed in slices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from kbroker.clock import Clock, Timer
from kbroker.coordinator.runtime.batch_append import BatchAppend
from kbroker.coordinator.runtime.effects import Instant
from kbroker.coordinator.runtime.frozen_state import FrozenState
from kbroker.coordinator.runtime.held_tasks import HeldTasks
from kbroker.coordinator.runtime.paced_timers import PacedTimers
from kbroker.coordinator.runtime.partition_replay import PartitionReplay, Replay
from kbroker.coordinator.runtime.shard import LedPartition, Shard
from kbroker.coordinator.runtime.sliced_work import SlicedWork
from kbroker.errors import ErrorCode, KafkaError
from kbroker.java_hash import java_hash
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)

_LOAD_AGAIN_MS = 1000.0


class Machine(Replay, Protocol):
    """The state of one shard, as the runtime drives it."""

    def finish_load(self) -> Generator[None, None, bool]:
        """Prepare to serve what was read, in small steps. Nobody sees the state yet.

        Returns False if the log has to be read once more, from its start, before that.
        """
        ...

    def on_loaded(self) -> None: ...

    def on_resigned(self) -> None:
        """Answer whoever waits and drop the state, as another broker leads the shard."""
        ...


MachineT = TypeVar("MachineT", bound=Machine)
NewMachine = Callable[[Shard[MachineT]], MachineT]


class CoordinatorRuntime(Generic[MachineT]):
    """Owned by the event loop; `close` cancels what is under way."""

    def __init__(
        self,
        topic: str,
        append: BatchAppend,
        clock: Clock,
        timer: Timer,
        partition_count: Callable[[], int],
    ) -> None:
        """`partition_count` says how many partitions `topic` has, or would have."""
        self.topic = topic
        self._clock = clock
        self.monotonic_ms = clock.monotonic_ms
        self._timer = timer
        self._partition_count = partition_count
        self._append = append
        self._shards: dict[int, Shard[MachineT]] = {}
        self._in_doubt_since_ms: dict[TopicPartition, float] = {}  # monotonic
        self._timers = PacedTimers(clock, timer)
        self.set_timer = self._timers.set
        self.cancel_timer = self._timers.cancel
        self._tasks = HeldTasks()
        self._frozen = FrozenState()
        self._sliced = SlicedWork(clock, self.start)

    # ---- shards

    def partition_for(self, key: str) -> int:
        """The partition that keeps a key, by its Java hash code."""
        return abs(java_hash(key)) % self._partition_count()

    def shard_for(self, key: str) -> Shard[MachineT] | None:
        """Return the shard that keeps a key; None if another broker leads it."""
        return self._shards.get(self.partition_for(key))

    def shard_of(self, partition: int) -> Shard[MachineT] | None:
        """Return the shard of a partition; None if another broker leads it."""
        return self._shards.get(partition)

    def status(self, key: str) -> ErrorCode:
        """NONE when this broker answers for the key, whether or not it keeps something of it."""
        shard = self.shard_for(key)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def is_loading(self) -> bool:
        return any(not shard.is_loaded for shard in self._shards.values())

    def is_ready(self, partition: int) -> bool:
        """True when the shard of a partition serves here."""
        shard = self._shards.get(partition)
        return shard is not None and shard.is_loaded

    # ---- leadership

    def on_leadership_change(
        self,
        became_leader: Iterable[LedPartition],
        became_follower: Iterable[LedPartition],
        new_machine: NewMachine[MachineT],
    ) -> None:
        """The replica manager's news: partitions of the topic are read, or given up."""
        for partition in became_follower:
            if partition.topic_partition.topic == self.topic:
                self._resign(partition.topic_partition.partition)
        for partition in became_leader:
            if partition.topic_partition.topic == self.topic:
                self._lead(partition, new_machine)

    def resign_all(self) -> None:
        """The broker stops: it answers for nothing any more."""
        for partition in list(self._shards):
            self._resign(partition)

    def _lead(self, partition: LedPartition, new_machine: NewMachine[MachineT]) -> None:
        index = partition.topic_partition.partition
        shard = self._shards.get(index)
        if shard is not None:  # led before, with another ISR or epoch: what is in memory is right
            shard.epoch = partition.leader_epoch
            return
        shard = self._shards[index] = Shard(partition, self._append)
        self._begin_load(shard, new_machine)

    def _resign(self, partition: int) -> None:
        shard = self._shards.pop(partition, None)
        if shard is None:
            return
        if shard.is_loaded and shard.machine is not None:
            shard.machine.on_resigned()
        shard.resign()
        self._frozen.let_go(shard.topic_partition)

    def _leads(self, shard: Shard[MachineT]) -> bool:
        """False once it has been given up, even if it is led again."""
        return self._shards.get(shard.topic_partition.partition) is shard

    def _begin_load(self, shard: Shard[MachineT], new_machine: NewMachine[MachineT]) -> None:
        def steps() -> Iterator[None]:
            loading = self._load(shard, new_machine(shard))
            try:
                for _ in self._frozen.kept_out(shard.topic_partition, loading):
                    yield
                    if not self._leads(shard):
                        return
            except KafkaError as error:  # it has failed, and is given up soon, or it passes
                self._frozen.let_go(shard.topic_partition)
                _log.warning("%s cannot be loaded yet: %s", shard.topic_partition, error)
                self.set_timer(shard, self.monotonic_ms() + _LOAD_AGAIN_MS, again)

        def again() -> None:
            if self._leads(shard):
                self._begin_load(shard, new_machine)

        self.run_sliced(steps(), f"load {shard.topic_partition}")

    def _load(self, shard: Shard[MachineT], machine: MachineT) -> Iterator[None]:
        """Load a shard. Records that are unreadable, or of a kind that is not served, are left out,
        logged once, and remembered for `may_forget`.
        """
        self._in_doubt_since_ms.pop(shard.topic_partition, None)
        is_finished = False
        while not is_finished:
            reading = PartitionReplay(shard.topic_partition, shard.log, machine)
            yield from self._replay(shard, reading)
            is_finished = yield from machine.finish_load()
        if not reading.saw_everything:
            reading.tell()
            self._in_doubt_since_ms[shard.topic_partition] = self._clock.monotonic_ms()
        shard.machine = machine
        shard.is_loaded = True
        machine.on_loaded()

    def _replay(self, shard: Shard[MachineT], reading: PartitionReplay) -> Iterator[None]:
        """Read a partition's log.

        Raises KafkaError KAFKA_STORAGE_ERROR if the disk refuses, or the log moves to another.
        """
        log = shard.log
        for _ in reading.steps():
            yield
            if shard.log is not log:  # its files may go before all of it is read
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it has moved to another disk")

    def may_forget(self, partition: TopicPartition, retention_ms: float) -> bool:
        """Return whether what `partition` keeps may go because of its age.

        If the replay could not see everything, nothing may go until `retention_ms` have passed:
        what looks old, empty or unused may have been used in a record that cannot be read, or by a
        group of a kind that is not served here. Whoever still uses it will have said so again by
        then.
        """
        since_ms = self._in_doubt_since_ms.get(partition)
        return since_ms is None or self._clock.monotonic_ms() - since_ms >= retention_ms

    # ---- time

    def now(self) -> Instant:
        return Instant(self._clock.now_ms(), self._clock.monotonic_ms())

    async def sleep(self, delay_ms: float) -> None:
        """Let `delay_ms` pass on the timer's clock."""
        woken = asyncio.Event()
        handle = self._timer.call_later(delay_ms, woken.set)
        try:
            await woken.wait()
        finally:
            handle.cancel()

    # ---- tasks

    def start(self, work: Any, name: str) -> None:
        """Run a coroutine to its end; it is held and cancelled by `close`."""
        self._tasks.start(work, name)

    def close(self) -> None:
        """Cancel all timers and tasks."""
        self._timers.cancel_all()
        self._tasks.cancel()

    def run_sliced(self, steps: Iterator[None], name: str) -> None:
        """Work `steps` without holding up others; short work is done when this returns."""
        self._sliced.run(steps, name)
