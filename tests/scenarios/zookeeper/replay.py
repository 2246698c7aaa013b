"""Plays the 38 events of the fixture with our controllers and brokers that have no logs, over one
recorded tree: brokers 0 and 1 with their racks, the same topics in the same order. What Apache
Kafka chose at random (topic ids, the broker a topic starts at) comes from the fixture.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from kbroker.acl.acl import Acl, AclPattern
from kbroker.acl.acl_filter import AclFilter
from kbroker.acl.acl_rules import SuperUsers
from kbroker.admin.acl_admin import AclAdmin
from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.admin.client_quota_changes import alter_quotas
from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.scram_users import UserChange
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.state_machines.reassignment_phases import AlterPartitionReassignments
from kbroker.controller.state_machines.requested_elections import ElectionType, ElectLeaders
from kbroker.model import EndPoint, TopicPartition
from kbroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.zk.nodes.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.zk_paths import decode_uuid
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.brokers.following_broker import FollowingBroker, FollowingCluster
from tests.fakes.clusters.controller_cluster import FakeBroker
from tests.fakes.trees.recording_tree import RecordingTree
from tests.scenarios.zookeeper.fixture import EVENT_NAMES, transactions_of

CLUSTER_ID = "gIZxejT-SZSX6UZp8i4DvA"
RACKS = {0: "r0", 1: "r1"}
FIRST_PORT = 40850
OFFSETS_TOPIC = "__consumer_offsets"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.segment.bytes": "1048576",
}
SET, DELETE = 0, 1
TOPIC, BROKER = 2, 4


class FixtureChoices(random.Random):
    """Draws the fixture's outcomes: every topic it laid out started at the second broker."""

    def randrange(self, *_args: int, **_kwargs: int) -> int:
        return 1


class ReplayBroker(FollowingBroker):
    """Starts as a real broker does."""

    async def start(self) -> None:
        await self.zk.create_persistent_paths()
        await self.zk.get_or_create_cluster_id(CLUSTER_ID)
        await self.zk.register_broker(self.registration)
        await self.controller.startup()


class ReplayCluster(FollowingCluster):
    """The fixture's cluster, and its actions by number."""

    def __init__(self) -> None:
        super().__init__(KafkaConfig.for_profile("dev", SETTINGS))
        self.tree: RecordingTree = RecordingTree(self.clock)
        self.hand = self.tree.session()
        self.tree.names[self.hand.session_id] = "outside client"
        session = self.tree.session()
        self.tree.names[session.session_id] = "other session"
        zk = ZkUtils(session, self.clock)
        self.authorizer = AclAuthorizer(zk, self.clock, SuperUsers())
        self.rules = AclAdmin(session, self.authorizer)

    def make_broker(self, broker_id: int, rack: str | None) -> FakeBroker:
        broker = ReplayBroker(self, broker_id, RACKS[broker_id])
        self.tree.names[broker.session.session_id] = f"broker {broker_id}"
        end_point = EndPoint(
            listener_name="PLAINTEXT", host="127.0.0.1", port=FIRST_PORT + broker_id
        )
        broker.registration = replace(broker.registration, end_points=(end_point,))
        own = KafkaConfig.for_profile("dev", {**SETTINGS, "broker.id": str(broker_id)})
        broker.configs = ConfigAdmin(broker.zk, lambda: own, broker.metadata)
        broker.topics = TopicAdmin(
            broker.zk, lambda: own, broker.metadata, broker.waiter, FixtureChoices()
        )
        return broker

    # ---- actions

    async def start_broker(self, broker_id: int) -> None:
        await self.start(broker_id)

    async def return_broker(self, broker_id: int) -> None:
        await self.start(broker_id)
        await self.catch_up()

    async def stop_broker(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        await self.controller.controller.controlled_shutdown(
            broker_id, broker_epoch=await self._epoch(broker_id)
        )
        await self.settle()
        del self.brokers[broker_id]
        await broker.stop()

    async def _epoch(self, broker_id: int) -> int:
        registered = await self.controller.zk.broker(broker_id)
        assert registered is not None
        return registered.epoch

    async def kill_broker(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()

    def topic(
        self,
        name: str,
        partitions: int = -1,
        factor: int = -1,
        configs: dict[str, str] | None = None,
        assignment: list[list[int]] | None = None,
    ) -> CreateTopicsRequest.CreatableTopic:
        return CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[
                CreateTopicsRequest.CreatableReplicaAssignment(
                    partition_index=index, broker_ids=replicas
                )
                for index, replicas in enumerate(assignment or [])
            ],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )

    async def create_topics(self, *topics: CreateTopicsRequest.CreatableTopic) -> None:
        results = await self.controller.topics.create_topics(topics, 1000, False)
        assert not any(result.error for result in results), results

    async def create_offsets_topic(self) -> None:
        """Create the topic as the first group does that looks for its coordinator."""
        assert await self.controller.topics.auto_create([OFFSETS_TOPIC]) == {OFFSETS_TOPIC: 0}

    async def add_partitions(self, name: str, count: int) -> None:
        topic = CreatePartitionsRequest.CreatePartitionsTopic(
            name=name, count=count, assignments=None
        )
        (result,) = await self.controller.topics.create_partitions([topic], 1000, False)
        assert result.error == 0, result

    async def delete_topic(self, name: str) -> None:
        (result,) = await self.controller.topics.delete_topics([name], 1000)
        assert result.error == 0, result

    async def alter_configs(
        self, at: FakeBroker, kind: int, name: str, changes: dict[str, str | None]
    ) -> None:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name=key, config_operation=DELETE if value is None else SET, value=value
                )
                for key, value in changes.items()
            ],
        )
        (error,) = await at.configs.incremental_alter([resource], False)
        assert error is None, error

    async def alter_user(
        self, name: str, stored: dict[str, str] | None = None, deleted: Iterable[str] = ()
    ) -> None:
        change = UserChange(set(deleted), stored or {})
        await self.controller.configs.change_user(name, change.applied)

    async def create_rules(self, pattern: AclPattern, *acls: Acl) -> None:
        refusals = await self.rules.create([(pattern, acl) for acl in acls])
        assert not any(refusals), refusals

    async def delete_rule(self, pattern: AclPattern, acl: Acl) -> None:
        asked = AclFilter(*pattern, acl.principal, acl.host, acl.operation, acl.permission)
        ((deleted,),) = await self.rules.delete([asked])
        assert deleted.refusal is None

    async def alter_quota(
        self, entity: Mapping[str, str | None], key: str, value: float | None
    ) -> None:
        """Set a quota of an entity, or remove it."""
        quotas = AlterClientQuotasRequest
        entry = quotas.EntryData(
            entity=[
                quotas.EntityData(entity_type=kind, entity_name=name)
                for kind, name in entity.items()
            ],
            ops=[quotas.OpData(key=key, value=float(value or 0), remove=value is None)],
        )
        change = self.controller.configs.change_entity
        (error,) = (await alter_quotas(change, _itself, [entry], is_stored=True)).values()
        assert error is None, error

    async def reassign(self, partition: TopicPartition, target: tuple[int, ...] | None) -> None:
        event = AlterPartitionReassignments({partition: target})
        answers = await self.controller.controller.ask(event)
        assert answers == {partition: None}
        await self.settle()
        await self.catch_up()

    async def elect_preferred(self) -> None:
        """Elect as `kafka-leader-election --all-topic-partitions` asks for it."""
        controller = self.controller.controller
        assert controller.context is not None
        partitions = frozenset(controller.context.leadership)
        await controller.ask(ElectLeaders(partitions, ElectionType.PREFERRED))

    async def ask_by_node(self, name: str, document: dict[str, object] | None) -> None:
        data = b"" if document is None else json.dumps(document, separators=(",", ":")).encode()
        await self.hand.create(f"/admin/{name}", data)
        await self.settle()
        await self.catch_up()

    async def allocate_producer_ids(self) -> None:
        """The controller takes a block for each broker that asks."""
        blocks = ProducerIdBlocks(self.controller.zk)
        for broker_id in (0, 1):
            await blocks.allocate(broker_id)

    async def throttle(self, rate: str | None, replicas: tuple[str, str] | None) -> None:
        rates = dict.fromkeys(
            ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), rate
        )
        for broker_id in (0, 1):
            await self.alter_configs(self.brokers[broker_id], BROKER, str(broker_id), rates)
        leaders, followers = replicas or (None, None)
        changes = {
            "leader.replication.throttled.replicas": leaders,
            "follower.replication.throttled.replicas": followers,
        }
        await self.alter_configs(self.controller, TOPIC, "moving", changes)


async def _itself(address: str) -> str:
    return address


def topic_ids() -> Iterator[UUID]:
    """Ids of the fixture's topics, in the order of their making."""
    for name in EVENT_NAMES:
        for transaction in transactions_of(name):
            for write in transaction.writes:
                if write.op == "create" and write.data and "topic_id" in write.data:
                    yield decode_uuid(json.loads(write.data)["topic_id"])
