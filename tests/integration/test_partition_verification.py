"""Whether a transaction may begin in a partition: the broker that leads it asks the one that
coordinates the transaction, also over the network (KIP-890).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.record.record_batch import TRANSACTIONAL_BIT
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.running.waiting import until
from tests.integration.local_cluster_client import Cluster, running

BROKERS = 2
LAST_WITHOUT_ABORTABLE, FIRST_WITH_ABORTABLE, FIRST_THAT_ADDS = 10, 11, 12
PASSING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path, brokers=BROKERS) as cluster:
        assert await cluster.create("t", BROKERS) is ErrorCode.NONE
        yield cluster


class Producer:
    """A transactional producer that does only what it is told to."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.home = -1
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    async def init(self) -> None:
        async def find() -> int | None:
            request = FindCoordinatorRequest(key=self.name, key_type=1)
            answer = await self.cluster.ask(0, request, 3)
            return None if answer.error_code else int(answer.node_id)

        self.home = int(await until(find))
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)

        async def begin() -> Any:
            answer = await self.cluster.ask(self.home, request)
            return None if answer.error_code else answer

        answer = await until(begin)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self, *partitions: int) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name="t", partitions=list(partitions)
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )

        async def added() -> bool:
            answer = await self.cluster.ask(self.home, request, 3)
            results = answer.results_by_topic_v3_and_below[0].results_by_partition
            codes = {result.partition_error_code for result in results}
            assert codes <= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}, codes
            return codes == {0}

        await until(added)

    async def produce(
        self, leader: int, partition: int, version: int = LAST_WITHOUT_ABORTABLE
    ) -> ErrorCode:
        sequence = self.sequences.get(partition, 0)
        records = batch(
            b"%d" % sequence,
            flags=TRANSACTIONAL_BIT,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
        request = ProduceRequest(
            transactional_id=self.name, acks=-1, timeout_ms=5_000, topic_data=topics
        )
        answer = await self.cluster.ask(leader, request, version)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self.sequences[partition] = sequence + 1
        return code

    async def commit_offsets(self, group: str, version: int = 3) -> ErrorCode:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=42
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
            ],
        )
        home = await self.cluster.coordinator(0, group)

        async def commit() -> ErrorCode | None:
            answer = await self.cluster.ask(home, request, version)
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
            return None if code in PASSING else code

        code = await until(commit)
        assert isinstance(code, ErrorCode)
        return code

    async def add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )

        async def added() -> bool:
            return (await self.cluster.ask(self.home, request)).error_code == 0

        await until(added)

    async def end_epoch(self) -> None:
        """EndTxn of the second protocol: the producer goes on as it is told."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=True,
        )
        answer = await self.cluster.ask(self.home, request, 5)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    async def end(self, *, is_commit: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = await self.cluster.ask(self.home, request, 4)
        assert answer.error_code == ErrorCode.NONE


async def committed(cluster: Cluster, leader: int, partition: int) -> tuple[int, int]:
    """The high watermark, and the last stable offset."""
    asked = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=0, partition_max_bytes=1_000_000
    )
    request = FetchRequest(
        max_wait_ms=0,
        isolation_level=1,
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[asked])],
    )
    answer = await cluster.ask(leader, request, 11)
    found = answer.responses[0].partitions[0]
    return found.high_watermark, found.last_stable_offset


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])  # of both coordinators
async def test_only_what_was_added_to_a_transaction_is_taken_whoever_leads_and_coordinates(
    cluster: Cluster, name: str
) -> None:
    leaders = await cluster.leaders(0, "t")
    assert set(leaders.values()) == {0, 1}
    producer = Producer(cluster, name)
    await producer.init()

    for partition, leader in leaders.items():
        assert await producer.produce(leader, partition) is ErrorCode.INVALID_TXN_STATE
        told = await producer.produce(leader, partition, FIRST_WITH_ABORTABLE)
        assert told is ErrorCode.TRANSACTION_ABORTABLE
        assert await committed(cluster, leader, partition) == (0, 0)
    await producer.add(*leaders)
    for partition, leader in leaders.items():
        assert await producer.produce(leader, partition) is ErrorCode.NONE
        assert await producer.produce(leader, partition) is ErrorCode.NONE
        assert await committed(cluster, leader, partition) == (2, 0)
    await producer.end()
    for partition, leader in leaders.items():

        async def is_over(partition: int = partition, leader: int = leader) -> bool:
            return await committed(cluster, leader, partition) == (3, 3)

        await until(is_over)
        assert await producer.produce(leader, partition) is ErrorCode.INVALID_TXN_STATE
        assert await committed(cluster, leader, partition) == (3, 3)


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_partition_of_another_transaction_of_the_producer_is_none_of_this(
    cluster: Cluster, name: str
) -> None:
    """A batch of the first transaction that comes during the second must not begin one in its
    partition: nobody would ever end it.
    """
    leaders = await cluster.leaders(0, "t")
    producer = Producer(cluster, name)
    await producer.init()
    await producer.add(0)
    await producer.end(is_commit=False)
    await producer.add(1)

    assert await producer.produce(leaders[0], 0) is ErrorCode.INVALID_TXN_STATE
    assert await producer.produce(leaders[1], 1) is ErrorCode.NONE


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
async def test_a_producer_that_was_replaced_begins_nothing(cluster: Cluster, name: str) -> None:
    leaders = await cluster.leaders(0, "t")
    old, new = Producer(cluster, name), Producer(cluster, name)
    await old.init()
    await old.add(*leaders)
    await new.init()

    for partition, leader in leaders.items():
        assert await old.produce(leader, partition) is ErrorCode.INVALID_PRODUCER_EPOCH
    await new.add(*leaders)
    for partition, leader in leaders.items():
        assert await new.produce(leader, partition) is ErrorCode.NONE


async def test_an_id_that_nobody_has_begins_nothing(cluster: Cluster) -> None:
    leaders = await cluster.leaders(0, "t")
    known = Producer(cluster, "known")
    await known.init()
    unknown = Producer(cluster, "unknown")
    unknown.producer_id, unknown.epoch = 77, 0

    for partition, leader in leaders.items():
        told = await unknown.produce(leader, partition)
        assert told is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_coordinator_that_is_away_is_asked_again(cluster: Cluster) -> None:
    leaders = await cluster.leaders(0, "t")
    producer = Producer(cluster, "x")
    await producer.init()
    await producer.add(*leaders)
    here = 1 - producer.home
    partition = next(p for p, leader in leaders.items() if leader == here)

    await cluster.local.stop_broker(producer.home)

    told = await producer.produce(here, partition)
    assert told is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await cluster.end_offset(here, "t", partition) == (ErrorCode.NONE, 0)


async def test_verification_can_be_switched_off_while_the_broker_runs(cluster: Cluster) -> None:
    leaders = await cluster.leaders(0, "t")
    producer = Producer(cluster, "x")
    await producer.init()
    assert await producer.produce(leaders[0], 0) is ErrorCode.INVALID_TXN_STATE
    setting = IncrementalAlterConfigsRequest.AlterableConfig(
        name="transaction.partition.verification.enable", config_operation=0, value="false"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=4, resource_name="", configs=[setting]
    )

    answer = await cluster.ask(0, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE

    async def is_taken() -> bool:
        return await producer.produce(leaders[0], 0) is ErrorCode.NONE

    await until(is_taken)


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
async def test_only_offsets_that_were_added_to_a_transaction_are_taken(
    cluster: Cluster, name: str
) -> None:
    producer = Producer(cluster, name)
    await producer.init()
    await producer.add(0)

    assert await producer.commit_offsets("group") is ErrorCode.INVALID_TXN_STATE
    await producer.add_offsets("group")
    assert await producer.commit_offsets("group") is ErrorCode.NONE
    assert await producer.commit_offsets("group") is ErrorCode.NONE


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
async def test_what_is_written_and_committed_joins_a_transaction_by_itself(
    cluster: Cluster, name: str
) -> None:
    leaders = await cluster.leaders(0, "t")
    producer = Producer(cluster, name)
    await producer.init()

    async def is_written(partition: int, leader: int) -> bool:
        code = await producer.produce(leader, partition, FIRST_THAT_ADDS)
        assert code in {ErrorCode.NONE, *PASSING}
        return code is ErrorCode.NONE

    for epoch in range(3):
        assert producer.epoch == epoch
        for place in leaders.items():
            await until(lambda place=place: is_written(*place))
        assert await producer.commit_offsets("group", 5) is ErrorCode.NONE
        await producer.end_epoch()
    for partition, leader in leaders.items():

        async def is_over(partition: int = partition, leader: int = leader) -> bool:
            return await committed(cluster, leader, partition) == (6, 6)

        await until(is_over)
    producer.epoch -= 1
    for partition, leader in leaders.items():
        late = await producer.produce(leader, partition, FIRST_THAT_ADDS)
        assert late is ErrorCode.INVALID_PRODUCER_EPOCH
