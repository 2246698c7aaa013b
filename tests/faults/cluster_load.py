"""What people and producers do to a simulated cluster: topics come, grow, change and go, through
several brokers at once and by hand in the tree, and records are appended wherever a leader is.
"""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any
from uuid import UUID

from kbroker.admin.config_admin import AlterConfigsResource
from kbroker.admin.config_changes import AlterableConfig
from kbroker.controller.state_machines.requested_elections import ElectionType, ElectLeaders
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.replication.partitions.partition import Partition
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.admin_znodes import encode_reassignment
from kbroker.zk.tree import NodeExistsError, TreeError
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop
from tests.fakes.trees.preferred_election import preferred_election
from tests.faults.cluster_model import Acknowledged, ClusterModel
from tests.faults.cluster_process import BrokerProcess, append

TOPICS = ("a", "b", "c", "d", "e")
REASSIGN, PREFERRED = zk_paths.REASSIGN_PARTITIONS, zk_paths.PREFERRED_REPLICA_ELECTION
TIMEOUT_MS = 5_000
APPENDS_AT_ONCE = 6


class ClusterLoad:
    """Each method does one thing, through a broker that runs or by hand."""

    def __init__(
        self, random: Random, loop: VirtualLoop, store: EmbeddedTree, model: ClusterModel
    ) -> None:
        self._random = random
        self._loop = loop
        self._model = model
        self._store = store
        self._clock = LoopClock(loop)
        self._hand = store.session()
        self._values = 0
        self.wishes = 0
        self.fulfilled = 0
        self.appended = 0

    async def create(self, process: BrokerProcess) -> None:
        """Through a broker."""
        random = self._random
        name = random.choice(TOPICS)
        configs = []
        if random.random() < 0.4:
            value = str(random.randrange(1, 9) * 3_600_000)
            configs = [CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=value)]
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=random.randrange(1, 4),
            replication_factor=1,
            configs=configs,
        )
        self._wish(process, self._created(process, topic), f"create {name}")

    async def _created(
        self, process: BrokerProcess, topic: CreateTopicsRequest.CreatableTopic
    ) -> str:
        (result,) = await process.topics.create_topics([topic], TIMEOUT_MS, False)
        if result.error is ErrorCode.NONE:
            self._told_of(result.topic_id, result.num_partitions, f"{process}: {topic.name}")
        return result.error.name

    def _told_of(self, topic_id: UUID, partitions: int, text: str) -> None:
        if topic_id not in self._model.lives:
            self._model.violate("topic acknowledged and not there", text)
        known = self._model.created.get(topic_id, 0)
        self._model.created[topic_id] = max(known, partitions)

    async def create_replicated(self) -> None:
        """By hand: a topic with several replicas, as an assignment in the tree."""
        random, name = self._random, self._random.choice(TOPICS)
        brokers = [int(name) for name in await self._hand.children(zk_paths.BROKER_IDS)]
        if not brokers:
            return
        partitions = {
            number: ReplicaAssignment(
                replicas=tuple(random.sample(brokers, random.randrange(1, len(brokers) + 1)))
            )
            for number in range(random.randrange(1, 4))
        }
        assignment = TopicAssignment(
            topic_id=UUID(int=random.getrandbits(128)), partitions=partitions
        )
        self._model.say(f"by hand: create {name}")
        try:
            await self._hand.create(zk_paths.topic_path(name), zk_paths.encode_topic(assignment))
        except NodeExistsError:
            return

    async def delete(self, process: BrokerProcess) -> None:
        """Through a broker."""
        name = self._random.choice(TOPICS)
        self._wish(process, self._deleted(process, name), f"delete {name}")

    async def _deleted(self, process: BrokerProcess, name: str) -> str:
        (result,) = await process.topics.delete_topics([name], TIMEOUT_MS)
        return result.error.name

    async def delete_by_hand(self) -> None:
        """A wish in the tree; for a topic that may not exist."""
        name = self._random.choice(TOPICS)
        self._model.say(f"by hand: delete {name}")
        try:
            await self._hand.create(zk_paths.delete_topic_path(name))
        except NodeExistsError:
            return

    async def grow(self, process: BrokerProcess) -> None:
        """Through a broker."""
        name = self._random.choice(TOPICS)
        count = self._random.randrange(2, 6)
        topic = CreatePartitionsRequest.CreatePartitionsTopic(
            name=name, count=count, assignments=None
        )
        self._wish(process, self._grown(process, topic), f"grow {name} to {count}")

    async def _grown(
        self, process: BrokerProcess, topic: CreatePartitionsRequest.CreatePartitionsTopic
    ) -> str:
        (result,) = await process.topics.create_partitions([topic], TIMEOUT_MS, False)
        return result.error.name

    async def alter(self, process: BrokerProcess) -> None:
        """A setting of a topic, through a broker."""
        name, random = self._random.choice(TOPICS), self._random
        value = None if random.random() < 0.3 else str(random.randrange(1, 9) * 3_600_000)
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=name,
            configs=[
                AlterableConfig(
                    name="retention.ms", config_operation=0 if value else 1, value=value
                )
            ],
        )
        self._wish(process, self._altered(process, resource), f"retention.ms={value} of {name}")

    async def _altered(self, process: BrokerProcess, resource: AlterConfigsResource) -> str:
        (error,) = await process.configs.incremental_alter([resource], False)
        return "NONE" if error is None else error.code.name

    async def alter_often(self, process: BrokerProcess) -> None:
        """Several settings at once."""
        for _ in range(3):
            await self.alter(process)

    async def alter_by_hand(self) -> None:
        """As kafka-configs --zookeeper does it."""
        name = self._random.choice(TOPICS)
        if await self._hand.exists(zk_paths.topic_path(name)) is None:
            return
        value = str(self._random.randrange(1, 9) * 3_600_000)
        self._model.say(f"by hand: retention.ms={value} of {name}")
        path = zk_paths.config_path(zk_paths.TOPIC_CONFIGS, name)
        data = zk_paths.encode_config({"retention.ms": value})
        if await self._hand.exists(path) is None:
            await self._hand.create(path, data)
        else:
            await self._hand.set(path, data)
        news = zk_paths.encode_config_change(f"{zk_paths.TOPIC_CONFIGS}/{name}")
        await self._hand.create(zk_paths.config_change_prefix(), news, sequential=True)

    async def elect_preferred(self, process: BrokerProcess) -> None:
        """Move leaders home, where this broker is the controller."""
        if process.controller.is_active:
            self._model.say(f"{process}: preferred leaders")
            context = process.controller.context
            everything = frozenset(context.leadership) if context is not None else frozenset()
            wanted = ElectLeaders(everything, ElectionType.PREFERRED)
            election = _awaited(process.controller.ask(wanted))
            self._wish(process, election, "preferred leaders")

    async def prefer_by_hand(self) -> None:
        """As kafka-preferred-replica-election did it."""
        partitions = await self._some_partitions()
        if partitions and await self._hand.exists(PREFERRED) is None:
            self._model.say(f"by hand: preferred leaders of {partitions}")
            await self._hand.create(PREFERRED, preferred_election(partitions))

    async def reassign_by_hand(self) -> None:
        """As kafka-reassign-partitions --zookeeper did it; a wish that waits is left alone."""
        brokers = [int(name) for name in await self._hand.children(zk_paths.BROKER_IDS)]
        partitions = await self._some_partitions()
        if not partitions or not brokers or await self._hand.exists(REASSIGN) is not None:
            return
        random = self._random
        wanted = {
            partition: random.sample(brokers, random.randrange(1, min(len(brokers), 3) + 1))
            for partition in partitions
        }
        self._model.say(f"by hand: reassign {wanted}")
        await self._hand.create(REASSIGN, encode_reassignment(wanted))

    async def _some_partitions(self) -> list[TopicPartition]:
        found = []
        for name in await self._hand.children(zk_paths.TOPICS):
            data, _ = await self._hand.get(zk_paths.topic_path(name))
            found += [TopicPartition(name, n) for n in zk_paths.decode_topic(name, data).partitions]
        return self._random.sample(found, min(2, len(found)))

    async def append(self, processes: list[BrokerProcess]) -> None:
        """To some partitions, each wherever somebody takes itself for its leader."""
        led = [
            (process, partition)
            for process in processes
            for partition in process.replicas.hosted
            if partition.is_leader
        ]
        for process, partition in self._random.sample(led, min(APPENDS_AT_ONCE, len(led))):
            self._values += 1
            value = f"value-{self._values:06d}".encode()
            data = batch(value, timestamp=self._clock.now_ms())
            work = self._append(process, partition, data, value)
            self._loop.start(work, process.owner, "wish")

    async def _append(
        self, process: BrokerProcess, partition: Partition, data: memoryview, value: bytes
    ) -> None:
        offset = await append(process, partition.topic_partition, data)
        if offset is not None:
            self.appended += 1
            acknowledged = Acknowledged(offset, value)
            self._model.on_append(partition.topic_partition, partition.topic_id, acknowledged)

    # ---- inside

    def _wish(self, process: BrokerProcess, work: Coroutine[Any, Any, str], text: str) -> None:
        self.wishes += 1
        self._model.say(f"{process}: {text}?")
        self._loop.start(self._fulfil(process, work, text), process.owner, "wish")

    async def _fulfil(
        self, process: BrokerProcess, work: Coroutine[Any, Any, str], text: str
    ) -> None:
        try:
            outcome = await work
        except (TreeError, KafkaError) as error:
            outcome = repr(error)
        self.fulfilled += outcome == "NONE"
        self._model.say(f"{process}: {text}: {outcome}")


async def _awaited(election: Coroutine[Any, Any, object]) -> str:
    await election
    return "NONE"
