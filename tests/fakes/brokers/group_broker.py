"""A broker around a group coordinator.

Partitions of __consumer_offsets are in memory, time stands still.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

from kbroker.config.group_config import GroupConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.coordinator.group_coordinator import (
    Caller,
    CoordinatorServices,
    GroupCoordinator,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.events.event_recorder import EventRecorder
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.record.record_batch import Record, assign_offset, read_header, records
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
from tests.fakes.clusters.replication import Calls, Replication
from tests.fakes.running.virtual_time import VirtualTime

BROKER_ID = 0
LISTENER = "PLAINTEXT"
TOPIC_ID = uuid.UUID(int=7)
_REFUSAL = ErrorCode.NOT_ENOUGH_REPLICAS


class MemoryRecords:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.records = OneSegment.records
        self.position = 0

    def read(self) -> bytes:
        return self._data


class MemoryInfo:
    def __init__(self, data: bytes) -> None:
        self.records = MemoryRecords(data)


class OneSegment:
    """The segments of a log in memory: one, whose damage nothing finds."""

    base_offset = 0
    records = SimpleNamespace(path="memory")

    def floor_index(self, offset: int) -> int:
        return 0

    def __getitem__(self, index: int) -> OneSegment:
        return self

    @property
    def active(self) -> OneSegment:
        return self

    def from_offset(self, offset: int) -> list[OneSegment]:
        return []

    def distrust(self, end_offset: int) -> None:
        pass


class OffsetsLog:
    """A log of whole batches; `read` may cut the last one, as a real log does."""

    segments = OneSegment()
    rules = AppendRules.of(TopicConfig(), walks_records=True)

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.log_start_offset = 0
        self.cleaned_end_offset = 1 << 62  # a hole is the doing of the cleaner
        self.reads = 0
        self.log_end_offset = 0
        position = 0
        while position < len(self.data):
            header = read_header(self.data, position)
            self.log_end_offset = header.next_offset
            position += header.size_bytes
        self.high_watermark = self.log_end_offset

    def read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation, min_one_message: bool
    ) -> MemoryInfo:
        self.reads += 1
        position = 0
        while position < len(self.data):
            header = read_header(self.data, position)
            if header.next_offset > offset:
                size = max(max_bytes, header.size_bytes) if min_one_message else max_bytes
                return MemoryInfo(bytes(self.data[position : position + size]))
            position += header.size_bytes
        return MemoryInfo(b"")

    def append(self, batch: memoryview) -> int:
        base = self.log_end_offset
        assign_offset(batch, 0, base, 0)
        self.data += batch
        self.log_end_offset = read_header(batch, 0).next_offset
        return base

    def confirm(self) -> None:
        """The replicas have it all."""
        self.high_watermark = self.log_end_offset

    def batches(self) -> list[tuple[int, list[Record]]]:
        found, position = [], 0
        while position < len(self.data):
            header = read_header(self.data, position)
            found.append((header.base_sequence, list(records(self.data, position))))
            position += header.size_bytes
        return found


class OffsetsPartition:
    def __init__(self, topic_partition: TopicPartition, log: OffsetsLog, epoch: int = 0) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.leader_epoch = epoch


class OffsetsReplicas:
    """Appends to the logs it has, and has them confirmed as `mode` says. With `holds` the replicas
    answer only when `release` is called.
    """

    default_mode: ClassVar[Replication] = Replication.IMMEDIATE

    def __init__(self, mode: Replication | None = None) -> None:
        self.logs: dict[TopicPartition, OffsetsLog] = {}
        self.error = ErrorCode.NONE
        self.mode = mode or self.default_mode
        self.holds = False
        self.held: list[tuple[asyncio.Future[list[PartitionProduceResult]], list]] = []
        self._appends = 0

    def append_records(
        self,
        entries: Sequence[tuple[TopicPartition, memoryview | bytearray]],
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
    ) -> AppendOutcome:
        assert origin is AppendOrigin.COORDINATOR
        self._appends += required_acks != 0
        fails = self.mode is Replication.FAILING and self._appends % 3 == 0 and required_acks
        if fails and self._appends % 2:
            return self._answer([PartitionProduceResult(entries[0][0], _REFUSAL)], _REFUSAL, True)
        results = [self._append(partition, memoryview(batch)) for partition, batch in entries]
        is_late = self.holds or self.mode is not Replication.IMMEDIATE
        if required_acks == 0 or results[0].error_code is not ErrorCode.NONE or not is_late:
            if not self.held:
                self._confirm(results)
            return AppendOutcome(results)
        error = ErrorCode.REQUEST_TIMED_OUT if fails else ErrorCode.NONE
        return self._answer(results, error, not self.holds)

    def _answer(
        self, results: list[PartitionProduceResult], error: ErrorCode, by_itself: bool
    ) -> AppendOutcome:
        """The answer comes a few turns later, or with `release`."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.held.append((future, results))
        if by_itself:
            loop.call_soon(loop.call_soon, self._settle, future, results, error)
        return AppendOutcome(results, future)

    def _append(self, partition: TopicPartition, batch: memoryview) -> PartitionProduceResult:
        if self.error is not ErrorCode.NONE:
            return PartitionProduceResult(partition, self.error)
        try:
            base = self.logs[partition].append(batch)
        except KafkaError as error:
            return PartitionProduceResult(partition, error.code)
        return PartitionProduceResult(partition, ErrorCode.NONE, base, base)

    def _confirm(self, results: list[PartitionProduceResult]) -> None:
        for result in results:
            if result.base_offset >= 0:
                self.logs[result.topic_partition].confirm()

    def _settle(
        self,
        future: asyncio.Future[list[PartitionProduceResult]],
        results: list[PartitionProduceResult],
        error: ErrorCode,
    ) -> None:
        self.held = [each for each in self.held if each[0] is not future]
        if error is ErrorCode.NONE:
            self._confirm(results)
        for result in results:
            result.error_code = error
        if not future.done():  # the coordinator has stopped
            future.set_result(results)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        for future, results in self.held:
            self._settle(future, results, error)


class MemoryLegacyOffsets:
    def __init__(self) -> None:
        self.stored: dict[tuple[str, TopicPartition], int] = {}

    async def get(self, group_id: str, partition: TopicPartition) -> int | None:
        return self.stored.get((group_id, partition))

    async def put(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        self.stored[group_id, partition] = offset


def metadata_of(topics: dict[str, int], leader: int = BROKER_ID) -> UpdateMetadataRequest:
    """Topics by their number of partitions; `t` has an id."""
    broker = UpdateMetadataRequest.UpdateMetadataBroker(
        id=BROKER_ID,
        rack=None,
        endpoints=[
            UpdateMetadataRequest.UpdateMetadataEndpoint(
                port=9092, host="broker.local", listener=LISTENER
            )
        ],
    )
    return UpdateMetadataRequest(
        controller_id=BROKER_ID,
        live_brokers=[broker],
        topic_states=[
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=name,
                topic_id=TOPIC_ID if name == "t" else uuid.uuid4(),
                partition_states=[
                    UpdateMetadataRequest.UpdateMetadataPartitionState(
                        topic_name=name, partition_index=index, leader=leader
                    )
                    for index in range(count)
                ],
            )
            for name, count in topics.items()
        ],
    )


class GroupBroker:
    """The coordinator, with everything it talks to.

    Creating __consumer_offsets makes this broker lead it.
    """

    def __init__(
        self,
        *,
        partitions: int = 1,
        lead: bool = True,
        time: VirtualTime | Calls | None = None,
        mode: Replication | None = None,
        consumer_groups: ConsumerGroupServices | None = None,
        **settings: object,
    ) -> None:
        values = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": partitions}
        self.config = GroupConfig(**{**values, **settings})
        self.time: Any = Calls(time or VirtualTime())
        self.replicas = OffsetsReplicas(mode)
        self.metadata = MetadataCache(BROKER_ID)
        self.metadata.update(metadata_of({"t": 4}))
        self.legacy_offsets = MemoryLegacyOffsets()
        self.created: list[str] = []
        self.creation_error = ErrorCode.NONE
        self._partitions = partitions
        self.ids = 0
        self.events = EventRecorder(self.time.target)
        coordinator = GroupCoordinator(
            self.config,
            CoordinatorServices(
                replicas=self.replicas,
                metadata=self.metadata,
                topics=self,
                legacy_offsets=self.legacy_offsets,
                clock=self.time.target,
                timer=self.time.target,
                new_uuid=self._new_uuid,
                offsets_partitions=lambda: self.metadata.partition_count(GROUP_METADATA_TOPIC),
                note=self.events.note,
                consumer_groups=consumer_groups,
            ),
        )
        self.groups: Any = Calls(coordinator, "offsets", "consumer_groups")
        if lead:
            self.lead()

    def _new_uuid(self) -> uuid.UUID:
        self.ids += 1
        return uuid.UUID(int=self.ids)

    async def auto_create(self, topics: Iterable[str]) -> dict[str, ErrorCode]:
        codes = dict.fromkeys(topics, self.creation_error)
        self.created.extend(codes)
        if self.creation_error is ErrorCode.NONE:
            self.lead()
        return codes

    def lead(self, *logs: OffsetsLog, epoch: int = 0) -> None:
        """Lead all partitions of __consumer_offsets, with these logs or empty ones."""
        self.metadata.update(metadata_of({GROUP_METADATA_TOPIC: self._partitions}))
        partitions = []
        for index in range(self._partitions):
            name = TopicPartition(GROUP_METADATA_TOPIC, index)
            log = logs[index] if logs else self.replicas.logs.get(name) or OffsetsLog()
            self.replicas.logs[name] = log
            partitions.append(OffsetsPartition(name, log, epoch))
        self.groups.on_leadership_change(partitions, [])

    def resign(self) -> None:
        partitions = [OffsetsPartition(name, log) for name, log in self.replicas.logs.items()]
        self.groups.on_leadership_change([], partitions)

    def log(self, partition: int = 0) -> OffsetsLog:
        return self.replicas.logs[TopicPartition(GROUP_METADATA_TOPIC, partition)]

    def restarted(self, **settings: object) -> GroupBroker:
        """Another broker with what this one's logs hold."""
        other = GroupBroker(
            partitions=self._partitions, lead=False, mode=self.replicas.mode, **settings
        )
        other.ids = self.ids  # real ids never come twice
        other.lead(*(OffsetsLog(bytes(log.data)) for log in self.replicas.logs.values()))
        return other

    # ---- requests

    def join(
        self, group_id: str = "g", member_id: str = "", *, version: int = 9, **fields: object
    ) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
        names = fields.pop("protocols", ("range",))
        visible: Any = fields.pop("visible", None)
        metadata = fields.pop("metadata", SUBSCRIPTION)
        defaults = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in names
            ],
        }
        request = JoinGroupRequest(group_id=group_id, member_id=member_id, **{**defaults, **fields})
        return self.groups.join_group(
            request,
            Caller(client_id="c", client_host="/127.0.0.1", api_version=version, visible=visible),
        )

    def sync(
        self, member_id: str, generation_id: int, group_id: str = "g", **fields: object
    ) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
        given = fields.pop("assignments", {})
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in given.items()
        ]
        return self.groups.sync_group(
            SyncGroupRequest(
                group_id=group_id,
                member_id=member_id,
                generation_id=generation_id,
                assignments=assignments,
                **fields,
            )
        )

    def stable_member(self, group_id: str = "g", **fields: object) -> JoinGroupResponse:
        """One member in a stable group of its own."""
        joined = self.join(group_id, version=3, **fields)
        assert isinstance(joined, JoinGroupResponse)
        assignments = {joined.member_id: b"all"}
        self.sync(joined.member_id, joined.generation_id, group_id, assignments=assignments)
        return joined


SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"  # topic t, no user data
