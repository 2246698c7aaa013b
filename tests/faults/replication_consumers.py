"""Consumers of a simulated cluster: those that read records up to the high watermark, from leaders
and from followers, and groups that commit offsets and ask for them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.record.record_batch import read_header, records
from tests.faults.cluster_process import BrokerProcess
from tests.faults.replication_clients import BACKOFF_S, RETRIABLE, ClientMachine, Place
from tests.faults.replication_ledger import shown

FETCH_WAIT_MS = 300
# As clients have it: a broker that was moved away may lead in its own view for good.
METADATA_MAX_AGE_S = 60.0
EARLIEST = -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_FIRST_VERSION_WITH_IDS = 13


class Consumer:
    """Reads one partition from its start on, until it is told to stop."""

    isolation_level = READ_UNCOMMITTED
    wait_ms = FETCH_WAIT_MS

    def __init__(self, machine: ClientMachine, number: int, partition: TopicPartition) -> None:
        self.partition = partition
        self.is_over = False
        self.position = 0
        self._machine = machine
        self._ledger = machine.ledger
        self._random = machine.random
        self._purpose = f"consumer {number}"
        self._version = self._random.choice((4, 9, 11, 12, 13, 16, 18))
        self._reads_followers = self._version >= 11 and self._random.random() < 0.5
        self._cuts_before = 0  # of the broker that was asked last
        self._proved_epoch = -1  # of the leader that last served it

    def __repr__(self) -> str:
        return f"{self._purpose} of {self.partition} at {self.position}"

    async def run(self) -> None:
        """Read."""
        loop = self._machine.loop
        must_look, looked_s = False, loop.time()
        while not self.is_over:
            must_look |= loop.time() - looked_s >= METADATA_MAX_AGE_S
            if must_look:
                looked_s = loop.time()
            try:
                must_look = await self._fetch(anew=must_look)
            except OSError:
                must_look = True
            if must_look:
                await asyncio.sleep(BACKOFF_S * (1 + self._random.random()))

    async def _fetch(self, *, anew: bool) -> bool:
        """Read once; True where it is to be looked up anew who leads."""
        place = await self._machine.place(self.partition, anew=anew)
        if place is None or place.leader_epoch < self._proved_epoch:
            return True
        target = place.leader
        if self._reads_followers and self._random.random() < 0.5:
            target = self._random.choice(place.replicas)
        process = self._machine.network.processes.get(target)
        self._cuts_before = self._cuts(process)
        answer = await self._machine.ask(
            target, self._request(place), purpose=self._purpose, version=self._version
        )
        if answer.error_code:
            return True
        (topic,) = answer.responses
        (data,) = topic.partitions
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._out_of_range(place, target)
        if code is not ErrorCode.NONE:
            if code not in RETRIABLE:
                self._ledger.model.violate("unexpected answer", f"{self}: {code.name}")
            return True
        if process is not None and self._version >= 9:
            if target == place.leader:
                self._proved_epoch = max(self._proved_epoch, place.leader_epoch)
            self._note(data, process)
        self._read(data, target)
        return False

    def _cuts(self, process: BrokerProcess | None) -> int:
        """How often a broker has cut off the end of its log."""
        if process is None or not process.is_listening:
            return 0
        held = process.replicas.hosted.find(self.partition)
        return held.log.offsets.cuts if held is not None else 0

    def _note(self, data: Any, process: BrokerProcess) -> None:
        """Enter into the book where a broker says that its log is committed."""
        observer = (process.number, self._purpose)
        self._ledger.watermark(self.partition, observer, data.high_watermark)

    def _request(self, place: Place) -> FetchRequest:
        asked = FetchRequest.FetchPartition(
            partition=self.partition.partition,
            current_leader_epoch=place.leader_epoch,
            fetch_offset=self.position,
            partition_max_bytes=self._random.choice((100, 1 << 20)),
        )
        topic_id = place.topic_id if self._version >= _FIRST_VERSION_WITH_IDS else ZERO_UUID
        topic = FetchRequest.FetchTopic(
            topic=self.partition.topic, topic_id=topic_id, partitions=[asked]
        )
        return FetchRequest(
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.isolation_level,
            topics=[topic],
        )

    def _read(self, data: Any, target: int) -> None:
        """Take what came, record by record."""
        ledger, at = self._ledger, 0
        content = bytes(data.records or b"")
        while at + 61 <= len(content):
            header = read_header(content, at)
            if at + header.size_bytes > len(content):
                break
            for record in records(content, at):
                if record.offset < self.position:
                    continue
                self._check(record.offset, data.high_watermark, target)
                ledger.seen(self.partition, record.offset, shown(record), f"read from {target}")
                ledger.counts.consumed += 1
                self.position = record.offset + 1
            at += header.size_bytes

    def _check(self, offset: int, high_watermark: int, target: int) -> None:
        if offset >= high_watermark:
            self._ledger.model.violate(
                "read above the high watermark",
                f"{self}: {offset} from {target}, which says {high_watermark}",
            )
        if offset > self.position and not self._may_jump():
            self._ledger.model.violate("gap", f"{self}: next is {offset} from {target}")

    def _may_jump(self) -> bool:
        return (
            self._ledger.is_excused(self.partition)
            or self.partition.topic in self._ledger.shrinking
        )

    async def _out_of_range(self, place: Place, target: int) -> bool:
        """A follower may be behind; a leader of the epoch that was named has all that was read."""
        if target != place.leader or self._version < 9:
            return True
        if not self._may_jump():
            self._ledger.model.violate(
                "out of range", f"{self}: leader {target} of epoch {place.leader_epoch}"
            )
            return True
        asked = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=self.partition.partition,
            current_leader_epoch=place.leader_epoch,
            timestamp=EARLIEST,
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=self.partition.topic, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self._machine.ask(target, request, purpose=self._purpose, version=6)
        found = answer.topics[0].partitions[0]
        if not found.error_code:
            self.position = found.offset
        return bool(found.error_code)


class Committer:
    """Groups without members, one after the other: commits offsets that rise, and asks for them.

    A commit without an answer may arrive late, after later ones: its group is left alone then.
    """

    def __init__(self, machine: ClientMachine, name: str, partition: TopicPartition) -> None:
        self.name = name
        self.partition = partition
        self.is_over = False
        self.told: dict[str, int] = {}  # when all is at rest
        self.is_done = False  # commits nothing more
        self._machine = machine
        self._ledger = machine.ledger
        self._random = machine.random
        self._coordinators: dict[str, int] = {}
        self._groups = [name]
        self._next = 0

    def __repr__(self) -> str:
        return f"committer {self.name}, told of {sorted(self.told)}"

    async def run(self) -> None:
        """Commit, and ask."""
        while not self.is_over:
            action = self._commit if self._random.random() < 0.7 else self._ask
            await self._once(action, self._groups[-1])
            await asyncio.sleep(self._random.random())
        self.is_done = True

    async def learn(self) -> None:
        """Ask what all its groups have come to. Before all is at rest a coordinator that has not
        heard of its successor tells what it knew, as Kafka's does.
        """
        while waiting := [group for group in self._groups if group not in self.told]:
            for group in waiting:
                await self._once(self._learn, group)

    async def _once(self, action: Any, group: str) -> None:
        try:
            if group not in self._coordinators:
                await self._find(group)
            if group in self._coordinators:
                await action(group, self._coordinators[group])
        except OSError:
            self._coordinators.pop(group, None)
        if group not in self._coordinators:
            await asyncio.sleep(BACKOFF_S * (1 + self._random.random()))

    async def _find(self, group: str) -> None:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        answer = await self._machine.ask_any(request, version=4)
        (found,) = answer.coordinators
        if not found.error_code:
            self._coordinators[group] = found.node_id

    async def _commit(self, group: str, coordinator: int) -> None:
        offset = self._next
        self._next += 1
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=self.partition.partition, committed_offset=offset
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=self.partition.topic, partitions=[asked]
        )
        request = OffsetCommitRequest(group_id=group, topics=[topic])
        try:
            answer = await self._machine.ask(
                coordinator, request, purpose="group", version=8, timeout_ms=7_000
            )
        except OSError:
            self._groups.append(f"{self.name}-{len(self._groups)}")
            raise
        if self._is_fine(group, answer.topics[0].partitions[0].error_code):
            self._ledger.committed(group, offset)

    async def _ask(self, group: str, coordinator: int) -> int | None:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=self.partition.topic, partition_indexes=[self.partition.partition]
        )
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topic])
        answer = await self._machine.ask(
            coordinator, OffsetFetchRequest(groups=[wanted]), purpose="group", version=8
        )
        found = answer.groups[0]
        if not self._is_fine(group, found.error_code):
            return None
        partition = found.topics[0].partitions[0]
        fine = self._is_fine(group, partition.error_code)
        return partition.committed_offset if fine else None

    async def _learn(self, group: str, coordinator: int) -> None:
        told = await self._ask(group, coordinator)
        if told is not None:
            self.told[group] = told

    def _is_fine(self, group: str, error_code: int) -> bool:
        if not error_code:
            return True
        self._coordinators.pop(group, None)
        code = ErrorCode(error_code)
        if code not in RETRIABLE:
            self._ledger.model.violate("unexpected answer", f"{self}: {code.name}")
        return False
