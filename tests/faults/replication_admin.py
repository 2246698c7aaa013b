"""What people do to topics of a simulated cluster while clients are at work: by requests to any
broker, and by hand in the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from kbroker.protocol.schema import Message
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.admin_znodes import encode_reassignment
from kbroker.zk.tree import TreeError
from tests.fakes.trees.preferred_election import preferred_election
from tests.faults.replication_clients import ClientMachine

TOPIC = 2  # resource type
SET, DELETE = 0, 1
_HALF_DONE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS})


class ReplicationAdmin:
    """One person at `machine`; `partitions` are those that clients use."""

    def __init__(self, machine: ClientMachine, store: EmbeddedTree) -> None:
        self.partitions: list[TopicPartition] = []
        self.asked = 0
        self.answered = 0
        self._machine = machine
        self._random = machine.random
        self._hand = store.session()

    async def create(self, name: str, partitions: int, settings: dict[str, str]) -> bool:
        """Make a topic with three replicas; True when it is there."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=min(3, len(self._machine.brokers)),
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in settings.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=3_000)
        answer = await self._answer(request, 4_000)
        code = ErrorCode(answer.topics[0].error_code) if answer is not None else None
        return code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def raise_level(self, feature: str, level: int) -> None:
        """As kafka-features would, of one broker after the other: only the controller listens."""
        update = UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level)
        request = UpdateFeaturesRequest(timeout_ms=3_000, feature_updates=[update])
        for broker_id in self._machine.brokers:
            self._say(f"{feature} to {level}")
            await self._answer(request, broker_id=broker_id)

    async def alter_min_isr(self) -> None:
        """As kafka-configs would."""
        name = self._random.choice(self.partitions).topic
        self._machine.ledger.lenient.add(name)
        value = self._random.choice(("1", "2", "2", "3", None))
        config = IncrementalAlterConfigsRequest.AlterableConfig(
            name="min.insync.replicas",
            config_operation=DELETE if value is None else SET,
            value=value,
        )
        await self._alter(name, config)

    async def end_changes(self) -> None:
        """Give every topic back the setting that all began with."""
        config = IncrementalAlterConfigsRequest.AlterableConfig(
            name="min.insync.replicas", config_operation=DELETE, value=None
        )
        for name in sorted({partition.topic for partition in self.partitions}):
            await self._alter(name, config)

    async def _alter(
        self, name: str, config: IncrementalAlterConfigsRequest.AlterableConfig
    ) -> None:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC, resource_name=name, configs=[config]
        )
        self._say(f"{config.name}={config.value} of {name}")
        await self._answer(IncrementalAlterConfigsRequest(resources=[resource]))

    async def reassign(self) -> None:
        """Move a partition, or call its move off."""
        partition = self._random.choice(self.partitions)
        replicas: list[int] | None = None
        if self._random.random() < 0.8:
            count = min(len(self._machine.brokers), self._random.choice((2, 3, 3, 3)))
            replicas = self._random.sample(self._machine.brokers, count)
        self._machine.ledger.may_move(partition)
        self._say(f"reassign {partition} to {replicas}")
        each = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=partition.partition, replicas=replicas
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=partition.topic, partitions=[each]
        )
        await self._answer(AlterPartitionReassignmentsRequest(timeout_ms=3_000, topics=[topic]))

    async def elect(self) -> None:
        """Preferred leaders of all partitions."""
        self._say("elect preferred leaders")
        await self._answer(
            ElectLeadersRequest(election_type=0, timeout_ms=3_000, topic_partitions=None)
        )

    async def elect_unclean(self) -> None:
        """Somebody out of sync is to lead, where records may be lost for it."""
        rash = [p for p in self.partitions if p.topic in self._machine.ledger.unclean]
        for partition in rash:
            self._say(f"elect whoever lives for {partition}")
            wanted = ElectLeadersRequest.TopicPartitions(
                topic=partition.topic, partitions=[partition.partition]
            )
            await self._answer(
                ElectLeadersRequest(election_type=1, timeout_ms=3_000, topic_partitions=[wanted])
            )

    async def elect_by_hand(self) -> None:
        """As kafka-preferred-replica-election did it."""
        partition = self._random.choice(self.partitions)
        self._say(f"by hand: preferred leader of {partition}")
        if await self._hand.exists(zk_paths.PREFERRED_REPLICA_ELECTION) is None:
            await self._hand.create(
                zk_paths.PREFERRED_REPLICA_ELECTION, preferred_election([partition])
            )

    async def reassign_by_hand(self) -> None:
        """As kafka-reassign-partitions --zookeeper did it."""
        if await self._hand.exists(zk_paths.REASSIGN_PARTITIONS) is not None:
            return
        partition = self._random.choice(self.partitions)
        count = min(len(self._machine.brokers), 3)
        wanted = {partition: self._random.sample(self._machine.brokers, count)}
        self._machine.ledger.may_move(partition)
        self._say(f"by hand: reassign {wanted}")
        try:
            await self._hand.create(zk_paths.REASSIGN_PARTITIONS, encode_reassignment(wanted))
        except TreeError as error:
            self._say(f"by hand: {error!r}")

    async def delete_records(self) -> None:
        """Trim a partition of a topic that may shrink."""
        ledger = self._machine.ledger
        shrinking = [p for p in self.partitions if p.topic in ledger.shrinking]
        if not shrinking:
            return
        partition = self._random.choice(shrinking)
        values = ledger.book(partition).values
        offset = self._random.randrange(max(values, default=0) + 1)
        self._say(f"delete records of {partition} before {offset}")
        each = DeleteRecordsRequest.DeleteRecordsPartition(
            partition_index=partition.partition, offset=offset
        )
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=partition.topic, partitions=[each])
        place = await self._place(partition)
        if place is not None:
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=2_000)
            await self._answer(request, broker_id=place)

    async def _place(self, partition: TopicPartition) -> int | None:
        try:
            place = await self._machine.place(partition, anew=True)
        except OSError:
            return None
        return None if place is None else place.leader

    async def _answer(
        self, request: Message, timeout_ms: float = 4_000, broker_id: int | None = None
    ) -> Any:
        self.asked += 1
        target = self._random.choice(self._machine.brokers) if broker_id is None else broker_id
        try:
            answer = await self._machine.ask(
                target, request, purpose="admin", timeout_ms=timeout_ms
            )
        except OSError as error:
            self._say(f"{type(request).__name__}: {type(error).__name__}")
            return None
        self.answered += 1
        return answer

    def _say(self, text: str) -> None:
        self._machine.ledger.model.say(f"admin: {text}")


def partitions_of(topics: dict[str, int]) -> Sequence[TopicPartition]:
    """All partitions of topics with so many each."""
    return [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
