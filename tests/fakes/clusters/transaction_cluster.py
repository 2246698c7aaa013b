"""A transaction in all its parts: a coordinator, brokers 1 and 2 that lead partitions, a group
coordinator for offsets, and producers. Logs, producer state, markers and decisions are the real
ones; `told` keeps who said what to whom, and what was written. It needs a VirtualLoop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from types import SimpleNamespace
from typing import Any

from kbroker.apis.produce_validation import transactional_batch
from kbroker.apis.transaction_verification import Joining, refused_partitions
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.transaction.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kbroker.coordinator.transaction.marker_sender import TransactionMarkerSender
from kbroker.coordinator.transaction.marker_writer import MarkerWriter
from kbroker.coordinator.transaction.markers import SendMarkers
from kbroker.coordinator.transaction.participation import Codes, Participation
from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.coordinator.transaction.transaction import Transaction
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, Broker, TopicPartition
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.record.record_batch import TRANSACTIONAL_BIT, read_control, read_header, records
from kbroker.replication.metadata_cache import MetadataCache
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.brokers.transaction_broker import TransactionBroker
from tests.fakes.clusters.copying_cluster import CopyingCluster
from tests.fakes.clusters.replication import Replication
from tests.fakes.clusters.replication_cluster import partition_metadata, update_metadata
from tests.fakes.logs.log_maker import batch

REPLICAS = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (2,)}
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)
APPEND_TIMEOUT_MS = 10_000
SETTLED_S = 0.05  # long enough for replicas and answers, too short for whoever tries again


class Client:
    """A producer process: who it is, and the next sequence number of each partition."""

    def __init__(self, name: str, transactional_id: str) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.producer = NO_PRODUCER
        self.before = NO_PRODUCER  # its last transaction ended
        self.sequences: dict[TopicPartition, int] = {}

    def become(self, producer: Producer) -> None:
        if producer != self.producer:
            self.before, self.producer, self.sequences = self.producer, producer, {}


class TransactionCluster:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.brokers = CopyingCluster(1, 2)
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        mode = Replication.IMMEDIATE
        self.groups = GroupBroker(time=self.brokers.clock, mode=mode)
        self.coordinator = TransactionBroker(
            time=self.brokers.clock, mode=mode, send_markers=self._sender
        )
        self.coordinator.coordinator.start()
        self.coordinator_epoch = 0
        self._written = 0
        self._waiting: set[asyncio.Task[None]] = set()
        for partition, replicas in REPLICAS.items():
            self.lead(partition, replicas[0], 0)

    async def stop(self) -> None:
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        self.coordinator.coordinator.shutdown()
        self.groups.groups.shutdown()
        await self.brokers.__aexit__()

    async def settle(self, seconds: float = SETTLED_S) -> None:
        """Let go on what can, then tell what was written into the coordinator's log."""
        await asyncio.sleep(seconds)
        self.tell_written()

    def tell_written(self) -> None:
        written = self.coordinator.written()
        self.told += [
            f"{TRANSACTION_STATE_TOPIC}: {shown(each)}" for each in written[self._written :]
        ]
        self._written = len(written)

    # ---- brokers

    def lead(self, partition: TopicPartition, leader: int, epoch: int) -> None:
        """The controller makes a broker the leader, and tells the coordinator."""
        self.leaders[partition] = (leader, epoch)
        alive = tuple(each for each in REPLICAS[partition] if each in self.brokers.brokers)
        self.brokers.order(
            leader, epoch, of=partition, isr=alive, replicas=REPLICAS[partition], to=alive
        )
        self._describe(self.coordinator.metadata)

    def _describe(self, metadata: MetadataCache) -> None:
        states = [
            (each.topic, partition_metadata(each.partition, leader=leader, leader_epoch=epoch))
            for each, (leader, epoch) in self.leaders.items()
        ]
        states.append((GROUP_METADATA_TOPIC, partition_metadata(0)))
        for topic, state in states:
            metadata.update(update_metadata((topic, state)))

    def replace_coordinator(self, *, knows_it: bool) -> TransactionBroker:
        """Another broker leads __transaction_state from now on; the old one may not know yet."""
        old = self.coordinator
        if knows_it:
            old.resign()
        self.coordinator_epoch += 1
        self.coordinator = old.restarted(send_markers=self._sender)
        self._describe(self.coordinator.metadata)
        self.coordinator.coordinator.start()
        return old

    # ---- markers

    def _sender(self, metadata: MetadataCache) -> SendMarkers:
        writer = MarkerWriter(
            SimpleNamespace(find=lambda _: _OFFSETS_PARTITION),
            self.groups.replicas,
            self.groups.groups.end_transaction,
            self.brokers.clock.now_ms,
            APPEND_TIMEOUT_MS,
        )
        return TransactionMarkerSender(
            metadata,
            lambda request: self.write_markers("group coordinator", writer, request),
            lambda broker: MarkerClient(self, broker),
            APPEND_TIMEOUT_MS,
        )

    async def write_markers(
        self, target: str, writer: MarkerWriter, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        self.tell_written()
        asking = asking_coordinator(request)
        for marker in request.markers:
            end = ending(marker.transaction_result)
            of = shown_producer(Producer(marker.producer_id, marker.producer_epoch))
            names = " ".join(f"{t.name}-{n}" for t in marker.topics for n in t.partition_indexes)
            self.told.append(f"{asking} -> {target}: {end} of {of} for {names}")
        response = await writer.write(request)
        self.told += [
            f"{target} -> {asking}: {topic.name}-{each.partition_index} "
            f"{ErrorCode(each.error_code).name}"
            for result in response.markers
            for topic in result.topics
            for each in topic.partitions
        ]
        return response

    # ---- producers

    async def answer(self, client: Client, asking: Awaitable[Any]) -> None:
        """Tell what a client is answered, now or later."""
        task = asyncio.ensure_future(self._answered(client, asking))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        await self.settle()
        if not task.done():
            self.told.append(f"{client.name} waits for its answer")

    async def _answered(self, client: Client, asking: Awaitable[Any]) -> None:
        try:
            answer = await asking
        except KafkaError as error:
            answer = error.code.name
        if isinstance(answer, Producer):
            client.become(answer)
            answer = shown_producer(answer)
        self.tell_written()
        self.told.append(f"{client.name} <- {answer or 'NONE'}")

    async def produce(self, client: Client, partition: TopicPartition, value: str) -> str:
        """One record, as the leader of the partition takes it: the coordinator is asked first if
        the transaction begins there.
        """
        leader = self.leaders[partition][0]
        sequence = client.sequences.get(partition, 0)
        data = batch(
            value.encode(),
            timestamp=self.brokers.clock.now_ms(),
            flags=TRANSACTIONAL_BIT,
            producer_id=client.producer.producer_id,
            producer_epoch=client.producer.epoch,
            base_sequence=sequence,
        )
        error = await self._refusal(client, partition, memoryview(data))
        if error is ErrorCode.NONE:
            appends = self.brokers[leader].replicas.appends
            outcome = appends.append_records([(partition, memoryview(data))], -1, APPEND_TIMEOUT_MS)
            (result,) = await outcome.settled if outcome.settled else outcome.results
            error = result.error_code
        if error is not ErrorCode.NONE:
            return f"{error.name} from broker {leader}"
        client.sequences[partition] = sequence + 1
        return f"{partition} offset {result.base_offset}"

    async def _refusal(
        self, client: Client, partition: TopicPartition, data: memoryview
    ) -> ErrorCode:
        """The stage of Produce before the append (KIP-890)."""
        leader = self.leaders[partition][0]
        services = SimpleNamespace(
            replicas=self.brokers[leader].replicas,
            clock=self.brokers.clock,
            participation=LeaderQuestions(self, leader),
        )
        context: Any = SimpleNamespace(services=services)
        verified = transactional_batch(data)
        assert verified is not None
        refused = refused_partitions(
            context,
            client.transactional_id,
            {partition: verified},
            Joining.NOW if self.coordinator.level else Joining.BEFORE,
        )
        codes = refused if isinstance(refused, dict) else await refused
        return codes.get(partition, ErrorCode.NONE)

    async def send_offsets(
        self, client: Client, group: str, offsets: Mapping[TopicPartition, int]
    ) -> str:
        """AddOffsetsToTxn, then TxnOffsetCommit."""
        await self.coordinator.coordinator.add_partitions(
            client.transactional_id, client.producer, [OFFSETS]
        )
        now_ms = self.brokers.clock.now_ms()
        rows = [
            (partition, CommittedOffset(offset=value, metadata="", commit_timestamp_ms=now_ms))
            for partition, value in offsets.items()
        ]
        codes = self.groups.groups.offsets.commit_in_transaction(
            Committer(group), client.producer, rows
        )
        return " ".join(code.name for code in (codes if isinstance(codes, list) else await codes))

    async def end(self, client: Client, producer: Producer, *, is_commit: bool) -> Producer | None:
        name, end = client.transactional_id, self.coordinator.coordinator
        if self.coordinator.level:
            return await end.end_with_epoch(name, producer, is_commit=is_commit)
        await end.end(name, producer, is_commit=is_commit)
        return None

    # ---- readers

    def read_committed(self, partition: TopicPartition) -> str:
        """Show what a consumer that reads committed records sees."""
        log = self.brokers[self.leaders[partition][0]].log(partition)
        found = log.read(0, 1_000_000, FetchIsolation.TXN_COMMITTED, True)
        aborted = sorted(
            (each.first_offset, each.producer_id) for each in found.aborted_transactions or ()
        )
        seen, position, data, open_aborts = [], 0, bytes(found.records.read()), set()
        while position < len(data):
            header = read_header(data, position)
            while aborted and aborted[0][0] <= header.base_offset:
                open_aborts.add(aborted.pop(0)[1])
            values = list(records(data, position))
            if header.is_control:
                open_aborts.discard(header.producer_id)
            elif header.producer_id not in open_aborts:
                seen += [(each.value or b"").decode() for each in values]
            position += header.size_bytes
        stable, end = log.last_stable_offset, log.log_end_offset
        return f"{partition} shows [{' '.join(seen)}], stable up to {stable} of {end}"

    def log_lines(self, partition: TopicPartition) -> list[str]:
        """The batches of the leader's log."""
        data, position, lines = self.brokers[self.leaders[partition][0]].content(partition), 0, []
        while position < len(data):
            header = read_header(data, position)
            of = shown_producer(Producer(header.producer_id, header.producer_epoch))
            (record,) = records(data, position)
            what = (record.value or b"").decode()
            if header.is_control:
                control = read_control(record)
                what = f"{ending(control.is_commit)} by coordinator {control.coordinator_epoch}"
            lines.append(f"{partition} {header.base_offset}: {what} of {of}")
            position += header.size_bytes
        return lines


class LeaderQuestions:
    """A leader's questions to the coordinator; none gets lost."""

    def __init__(self, cluster: TransactionCluster, leader: int) -> None:
        self._cluster = cluster
        self._leader = leader
        coordinator = cluster.coordinator
        nobody: Any = None
        self._manager = AddPartitionsToTxnManager(
            coordinator.coordinator, coordinator.metadata, nobody, self.is_enabled, 1000
        )

    def is_enabled(self) -> bool:
        return True

    def verify(self, asked: Participation) -> Codes | Awaitable[Codes]:
        self._tell("takes part?", asked)
        return self._manager.verify(asked)

    async def add(self, asked: Participation) -> Codes:
        self._tell("takes part from now on", asked)
        return await self._manager.add(asked)

    def _tell(self, what: str, asked: Participation) -> None:
        names = " ".join(str(each) for each in asked.partitions)
        of = f"{asked.transactional_id} of {shown_producer(asked.producer)}"
        self._cluster.told.append(f"broker {self._leader} -> coordinator: {names} {what} ({of})")


class MarkerClient:
    """The coordinator's connection to a broker, for markers (a PeerClient)."""

    def __init__(self, cluster: TransactionCluster, target: Broker) -> None:
        self._cluster = cluster
        self._target = target.broker_id

    async def send(
        self, request: Any, *, timeout_ms: float | None = None, highest_version: int | None = None
    ) -> Any:
        cluster, name = self._cluster, f"broker {self._target}"
        broker = cluster.brokers.brokers.get(self._target)
        if broker is None:
            cluster.tell_written()
            cluster.told.append(f"{asking_coordinator(request)} -> {name}: nobody there")
            raise ConnectionRefusedError(name)
        writer = MarkerWriter(
            broker.replicas.hosted,
            broker.replicas.appends,
            cluster.groups.groups.end_transaction,
            cluster.brokers.clock.now_ms,
            APPEND_TIMEOUT_MS,
        )
        return await cluster.write_markers(name, writer, request)

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        return True

    def close(self) -> None:
        pass


_OFFSETS_PARTITION: Any = SimpleNamespace(
    log=SimpleNamespace(config=SimpleNamespace(message_format=2))
)


def shown(transaction: Transaction | None) -> str:
    """A record of __transaction_state."""
    if transaction is None:
        return "forgotten"
    names = "".join(f" {each}" for each in sorted(transaction.partitions))
    who = f"{transaction.transactional_id} of {shown_producer(transaction.producer)}"
    return f"{who} {transaction.state.label}{names}"


def shown_producer(producer: Producer) -> str:
    return f"{producer.producer_id}/{producer.epoch}"


def ending(is_commit: bool) -> str:
    return "COMMIT" if is_commit else "ABORT"


def asking_coordinator(request: WriteTxnMarkersRequest) -> str:
    """Its name: the leader epoch of its log."""
    return f"coordinator {request.markers[0].coordinator_epoch}"
