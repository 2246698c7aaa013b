"""ZkUtils: what brokers and the controller read and write in the tree, in Kafka's terms.

Law: paths and bytes come from `zk_paths`, errors are the tree's own. Everything a controller writes
is fenced: the write and a check of /controller_epoch's version happen in one multi, so a controller
that lost its seat cannot overwrite the new one's state (it gets ControllerMovedError).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from kbroker.clock import Clock
from kbroker.model import Broker, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.tree import (
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SetOp,
    Stat,
    Tree,
    TreeError,
    Watch,
    WatchEvent,
)
from kbroker.zk.zk_paths import (
    PartitionStateWrite,
    PartitionStateZnode,
    ProducerIdBlock,
    TopicAssignment,
)

_TURN_MS = 4.0  # so long may writes follow each other before others get a turn of the loop


class ControllerMovedError(Exception):
    """Another broker became controller; what was to be written was not."""


class ZkUtils:
    """Kafka's view of one session over the tree. Used on the event loop only."""

    def __init__(self, tree: Tree, clock: Clock) -> None:
        self.tree = tree
        self._clock = clock
        self._gave_way_ms = 0.0

    # ---- cluster and brokers

    async def create_persistent_paths(self) -> None:
        """Make the nodes every broker expects."""
        for path in zk_paths.PERSISTENT_PATHS:
            await self._create_if_absent(path)

    async def get_or_create_cluster_id(self, proposal: str) -> str:
        """The cluster's id; `proposal` becomes it in a new cluster."""
        await self._create_if_absent(zk_paths.CLUSTER_ID, zk_paths.encode_cluster_id(proposal))
        data, _ = await self.tree.get(zk_paths.CLUSTER_ID)
        return zk_paths.decode_cluster_id(data)

    async def register_broker(self, broker: Broker, jmx_port: int = -1) -> int:
        """Register a broker for the life of the session; returns its broker epoch.

        Raises NodeExistsError.
        """
        path = zk_paths.broker_path(broker.broker_id)
        data = zk_paths.encode_broker(broker, self._clock.now_ms(), jmx_port)
        results = await self.tree.multi((CreateOp(path, None, ephemeral=True), SetOp(path, data)))
        stat = results[1]
        assert isinstance(stat, Stat)
        return stat.czxid

    async def broker(self, broker_id: int) -> Broker | None:
        """A registered broker."""
        try:
            data, stat = await self.tree.get(zk_paths.broker_path(broker_id))
        except NoNodeError:
            return None
        return zk_paths.decode_broker(broker_id, data, stat.czxid)

    async def all_brokers(self, watch: Watch | None = None) -> list[Broker]:
        """All registered brokers, by id. The watch fires when one comes or goes."""
        names = await self._children(zk_paths.BROKER_IDS, watch)
        ids = sorted(int(name) for name in names if name.isdecimal())
        found = [await self.broker(broker_id) for broker_id in ids]
        return [broker for broker in found if broker is not None]

    # ---- controller

    async def controller_id(self, watch: Watch | None = None) -> int | None:
        """Id of the controller. The watch fires when it goes, comes or changes."""
        stat = await self.tree.exists(zk_paths.CONTROLLER, watch)
        if stat is None:
            return None
        try:
            data, _ = await self.tree.get(zk_paths.CONTROLLER)
        except NoNodeError:
            return None
        return zk_paths.decode_controller(data)

    async def controller_epoch(self) -> tuple[int, int]:
        """The controller epoch and the version of its node; the node is made in a new cluster."""
        await self._create_if_absent(zk_paths.CONTROLLER_EPOCH, zk_paths.encode_controller_epoch(0))
        data, stat = await self.tree.get(zk_paths.CONTROLLER_EPOCH)
        return zk_paths.decode_controller_epoch(data), stat.version

    async def register_controller_and_raise_epoch(self, broker_id: int) -> tuple[int, int]:
        """Become controller: returns the new epoch and the version of its node.

        Raises ControllerMovedError.
        """
        epoch, version = await self.controller_epoch()
        data = zk_paths.encode_controller(broker_id, self._clock.now_ms())
        try:
            await self.tree.multi(
                (
                    CreateOp(zk_paths.CONTROLLER, data, ephemeral=True),
                    SetOp(
                        zk_paths.CONTROLLER_EPOCH,
                        zk_paths.encode_controller_epoch(epoch + 1),
                        version,
                    ),
                )
            )
        except (NodeExistsError, BadVersionError) as error:
            raise ControllerMovedError(f"broker {broker_id} lost the election") from error
        return epoch + 1, version + 1

    async def delete_controller(self, epoch_version: int) -> None:
        """Give the seat up."""
        with suppress(NoNodeError):
            await self.fenced((DeleteOp(zk_paths.CONTROLLER),), epoch_version)

    async def create_feature(self) -> None:
        """Make the feature node of a new cluster."""
        await self._create_if_absent(zk_paths.FEATURE, zk_paths.encode_feature())

    async def fenced(self, ops: Sequence[Op], epoch_version: int) -> list[OpResult]:
        """Do all of `ops` if this is still the controller.

        Raises ControllerMovedError, or the error of the operation.
        """
        outcome = (await self.fenced_all([ops], epoch_version))[0]
        if isinstance(outcome, TreeError):
            raise outcome
        return outcome

    async def fenced_all(
        self, transactions: Sequence[Sequence[Op]], epoch_version: int
    ) -> list[list[OpResult] | TreeError]:
        """Do each of many transactions if this is still the controller; see `Tree.multi_all`.

        Raises ControllerMovedError: nothing after the change of controllers was written.
        """
        check = CheckOp(zk_paths.CONTROLLER_EPOCH, epoch_version)
        outcomes = await self.tree.multi_all([(check, *ops) for ops in transactions])
        for outcome in outcomes:
            if isinstance(outcome, BadVersionError | NoNodeError) and outcome.op_index == 0:
                raise ControllerMovedError("the controller epoch has been raised") from outcome
        return [o if isinstance(o, TreeError) else o[1:] for o in outcomes]

    # ---- topics

    async def topics(self, watch: Watch | None = None) -> list[str]:
        """Names of all topics. The watch fires when one comes or goes."""
        return await self._children(zk_paths.TOPICS, watch)

    async def topic_exists(self, topic: str) -> bool:
        """True when the topic is there."""
        return await self.tree.exists(zk_paths.topic_path(topic)) is not None

    async def topic_gone(self, topic: str) -> None:
        """Return when the tree no longer has the topic."""
        while True:
            changed = asyncio.Event()
            stat = await self.tree.exists(zk_paths.topic_path(topic), partial(_set, changed))
            if stat is None:
                return
            await changed.wait()

    async def topic_assignment(
        self, topic: str, watch: Watch | None = None
    ) -> TopicAssignment | None:
        """A topic's id and replicas. The watch fires when they change."""
        try:
            data, _ = await self.tree.get(zk_paths.topic_path(topic), watch)
        except NoNodeError:
            return None
        return zk_paths.decode_topic(topic, data)

    async def create_topic_assignment(self, topic: str, assignment: TopicAssignment) -> None:
        """Create a topic. Raises NodeExistsError."""
        await self.tree.create(zk_paths.topic_path(topic), zk_paths.encode_topic(assignment))
        await self._give_way()

    async def set_topic_assignment(
        self, topic: str, assignment: TopicAssignment, epoch_version: int | None = None
    ) -> None:
        """Replace a topic's assignment, fenced when an epoch version is given.

        Raises NoNodeError.
        """
        op = SetOp(zk_paths.topic_path(topic), zk_paths.encode_topic(assignment))
        if epoch_version is None:
            await self.tree.multi((op,))
        else:
            await self.fenced((op,), epoch_version)

    async def delete_topic(self, topic: str, epoch_version: int) -> None:
        """Remove a topic: partitions, assignment, overrides, and the wish to delete it."""
        path = zk_paths.topic_path(topic)
        await self._delete_recursive(zk_paths.partitions_path(topic), epoch_version)
        await self._delete_fenced(
            zk_paths.config_path(zk_paths.TOPIC_CONFIGS, topic), epoch_version
        )
        # The name is free from here on: nothing may be left to remove that a new topic would own.
        try:
            await self.fenced(
                (DeleteOp(path), DeleteOp(zk_paths.delete_topic_path(topic))), epoch_version
            )
        except NoNodeError:  # one of them has been removed by hand
            await self._delete_recursive(path, epoch_version)
            await self.delete_topic_deletions([topic], epoch_version)

    async def partition_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionStateZnode]:
        """The states of those partitions that have one."""
        wanted = list(partitions)
        paths = [zk_paths.partition_state_path(*topic_partition) for topic_partition in wanted]
        found = await self.tree.get_all(paths)
        states: dict[TopicPartition, PartitionStateZnode] = {}
        for topic_partition, path, node in zip(wanted, paths, found, strict=True):
            if node is not None:
                data, stat = node
                states[topic_partition] = zk_paths.decode_partition_state(path, data, stat.version)
        return states

    async def write_partition_states(
        self, writes: Iterable[PartitionStateWrite], controller_epoch: int, epoch_version: int
    ) -> dict[TopicPartition, int | None]:
        """Write states, each on its own; the value is the node's new version, or None where the
        expectation was wrong.

        Raises ControllerMovedError: nothing after it was written.
        """
        wanted = list(writes)
        ops = [(_state_op(write, controller_epoch),) for write in wanted]
        outcomes = await self.fenced_all(ops, epoch_version)
        return {
            write.topic_partition: _written_version(outcome)
            for write, outcome in zip(wanted, outcomes, strict=True)
        }

    async def create_partition_paths(
        self, partitions: Iterable[TopicPartition], epoch_version: int
    ) -> None:
        """Make the parents of new partitions' states, where absent."""
        paths: dict[str, None] = {}
        for topic, partition in partitions:
            paths[zk_paths.partitions_path(topic)] = None
            paths[zk_paths.partition_path(topic, partition)] = None
        outcomes = await self.fenced_all([(CreateOp(path),) for path in paths], epoch_version)
        for outcome in outcomes:
            if isinstance(outcome, TreeError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    # ---- topic deletion

    async def create_delete_topic(self, topic: str) -> None:
        """Ask for a topic to be deleted. Raises NodeExistsError."""
        await self.tree.create(zk_paths.delete_topic_path(topic))
        await self._give_way()

    async def is_marked_for_deletion(self, topic: str) -> bool:
        """True while a topic waits to be deleted."""
        return await self.tree.exists(zk_paths.delete_topic_path(topic)) is not None

    async def topic_deletions(self, watch: Watch | None = None) -> list[str]:
        """Topics to delete. The watch fires when one is added."""
        return await self._children(zk_paths.DELETE_TOPICS, watch)

    async def delete_topic_deletions(self, topics: Iterable[str], epoch_version: int) -> None:
        """Forget that these topics are to be deleted."""
        for topic in topics:
            await self._delete_fenced(zk_paths.delete_topic_path(topic), epoch_version)

    # ---- configuration

    async def entity_config(self, entity_type: str, name: str) -> dict[str, str]:
        """Overrides of an entity; none when it has none."""
        path = zk_paths.config_path(entity_type, name)
        try:
            data, _ = await self.tree.get(path)
        except NoNodeError:
            return {}
        return zk_paths.decode_config(path, data)

    async def entities(self, entity_type: str) -> list[str]:
        """Names of the entities of a type that have a node."""
        return await self._children(zk_paths.config_root_path(entity_type), None)

    async def set_entity_config(
        self, entity_type: str, name: str, overrides: Mapping[str, str]
    ) -> None:
        """Replace an entity's overrides, creating the node where absent."""
        path = zk_paths.config_path(entity_type, name)
        data = zk_paths.encode_config(overrides)
        try:
            await self.tree.set(path, data)
        except NoNodeError:
            await self.tree.create(path, data, make_parents=True)

    async def create_config_change(self, entity_path: str) -> None:
        """Tell all brokers that an entity's overrides changed."""
        await self.tree.create(
            zk_paths.config_change_prefix(),
            zk_paths.encode_config_change(entity_path),
            sequential=True,
            make_parents=True,
        )

    # ---- producer ids

    async def allocate_producer_id_block(self, broker_id: int) -> ProducerIdBlock:
        """Take the next block of producer ids for a broker."""
        while True:
            await self._create_if_absent(zk_paths.PRODUCER_ID_BLOCK)
            data, stat = await self.tree.get(zk_paths.PRODUCER_ID_BLOCK)
            first_id = zk_paths.decode_producer_id_block(data).last_id + 1 if data else 0
            last_id = first_id + zk_paths.PRODUCER_ID_BLOCK_SIZE - 1
            block = ProducerIdBlock(broker_id=broker_id, first_id=first_id, last_id=last_id)
            try:
                await self.tree.set(
                    zk_paths.PRODUCER_ID_BLOCK,
                    zk_paths.encode_producer_id_block(block),
                    stat.version,
                )
            except BadVersionError:
                continue  # another broker took this block
            return block

    async def skip_producer_ids(self, broker_id: int, highest_id: int) -> None:
        """Let blocks begin above `highest_id`, if they do not already."""
        while True:
            await self._create_if_absent(zk_paths.PRODUCER_ID_BLOCK)
            data, stat = await self.tree.get(zk_paths.PRODUCER_ID_BLOCK)
            last_id = zk_paths.decode_producer_id_block(data).last_id if data else -1
            if last_id >= highest_id:
                return
            size = zk_paths.PRODUCER_ID_BLOCK_SIZE
            first_id = highest_id // size * size
            block = ProducerIdBlock(
                broker_id=broker_id, first_id=first_id, last_id=first_id + size - 1
            )
            encoded = zk_paths.encode_producer_id_block(block)
            with suppress(BadVersionError):  # another broker took a block: look again
                await self.tree.set(zk_paths.PRODUCER_ID_BLOCK, encoded, stat.version)

    async def _give_way(self) -> None:
        """Let others run during a long row of writes: a tree in this process never suspends."""
        if self._clock.monotonic_ms() - self._gave_way_ms >= _TURN_MS:
            await asyncio.sleep(0)
            self._gave_way_ms = self._clock.monotonic_ms()

    # ---- inside

    async def _children(self, path: str, watch: Watch | None) -> list[str]:
        try:
            return await self.tree.children(path, watch)
        except NoNodeError:
            await self._create_if_absent(path)  # a watch needs a node to sit on
            return await self.tree.children(path, watch)

    async def _create_if_absent(self, path: str, data: bytes | None = None) -> None:
        if await self.tree.exists(path) is None:
            with suppress(NodeExistsError):
                await self.tree.create(path, data, make_parents=True)

    async def _delete_fenced(self, path: str, epoch_version: int) -> None:
        with suppress(NoNodeError):
            await self.fenced((DeleteOp(path),), epoch_version)

    async def _delete_recursive(self, path: str, epoch_version: int) -> None:
        try:
            names = await self.tree.children(path)
        except NoNodeError:
            return
        for name in names:
            await self._delete_recursive(f"{path}/{name}", epoch_version)
        with suppress(NoNodeError):
            await self.fenced((DeleteOp(path),), epoch_version)


def _state_op(write: PartitionStateWrite, controller_epoch: int) -> CreateOp | SetOp:
    path = zk_paths.partition_state_path(*write.topic_partition)
    data = zk_paths.encode_partition_state(write.leader_and_isr, controller_epoch)
    if write.expected_version is None:
        return CreateOp(path, data)
    return SetOp(path, data, write.expected_version)


def _written_version(outcome: list[OpResult] | TreeError) -> int | None:
    if isinstance(outcome, NodeExistsError | BadVersionError | NoNodeError):
        return None
    if isinstance(outcome, TreeError):
        raise outcome
    return outcome[0].version if isinstance(outcome[0], Stat) else 0


def _set(event: asyncio.Event, _change: WatchEvent) -> None:
    event.set()
