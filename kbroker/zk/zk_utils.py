"""ZkUtils: reads and writes of brokers and the controller in the tree, in Kafka's terms.

Law: paths and bytes come from `zk_paths`, errors are the tree's own. Everything a controller writes
is fenced: the write and a check of /controller_epoch's version happen in one multi, so a controller
that lost its seat cannot overwrite the new one's state (it gets ControllerMovedError). A node that
Kafka could not have written is reported once, with its path and the reason, and counts as absent:
it never hides the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ParamSpec, TypeVar
from uuid import UUID

from kbroker.clock import Clock
from kbroker.model import Broker, ReplicaAssignment, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.topic_nodes import NewTopicNodes, topic_removal
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
)
from kbroker.zk.zk_paths import (
    PartitionStateWrite,
    PartitionStateZnode,
    TopicAssignment,
    ZnodeFormatError,
)

_log = logging.getLogger(__name__)

NodeT = TypeVar("NodeT")
P = ParamSpec("P")

MAX_CONFLICTS = 100  # changes by others between a look and a write
_REPORTS = 10_000  # so many reports are remembered and not repeated
_ROW_NODES = 256  # read and decoded at a time: a few milliseconds


class ControllerMovedError(Exception):
    """Another broker became controller; nothing was written."""


class ZkUtils:
    """Kafka's view of one session over the tree. Used on the event loop only."""

    def __init__(self, tree: Tree, clock: Clock) -> None:
        self.tree = tree
        self._clock = clock
        self._reported: set[str] = set()

    # ---- cluster and brokers

    async def create_persistent_paths(self) -> None:
        """Create the nodes that every broker expects."""
        for path in zk_paths.PERSISTENT_PATHS:
            await self.create_if_absent(path)

    async def get_or_create_cluster_id(self, proposal: str) -> str:
        """The cluster's id; `proposal` becomes it in a new cluster."""
        await self.create_if_absent(zk_paths.CLUSTER_ID, zk_paths.encode_cluster_id(proposal))
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

    async def broker(self, broker_id: int, watch: Watch | None = None) -> Broker | None:
        """A registered broker. The watch fires when its node changes or goes."""
        return (await self._brokers([broker_id], watch))[0]

    async def all_brokers(
        self, watch: Watch | None = None, broker_watch: Watch | None = None
    ) -> list[Broker]:
        """All registered brokers, by id.

        The watch fires when one comes or goes, `broker_watch` when the node of one changes or goes.
        """
        names = await self.children(zk_paths.BROKER_IDS, watch)
        ids = []
        for name in names:
            if zk_paths.is_broker_id(name):
                ids.append(int(name))
            else:
                self.report(ZnodeFormatError(f"{zk_paths.BROKER_IDS}/{name}: not a broker id"))
        brokers = await self._brokers(sorted(ids), broker_watch)
        return [broker for broker in brokers if broker is not None]

    async def _brokers(
        self, broker_ids: Sequence[int], watch: Watch | None = None
    ) -> list[Broker | None]:
        return await self._read_all(
            [zk_paths.broker_path(broker_id) for broker_id in broker_ids],
            lambda path, data, stat: zk_paths.decode_broker(int(_name(path)), data, stat.czxid),
            watch,
        )

    # ---- controller

    async def controller_id(self, watch: Watch | None = None) -> int | None:
        """Id of the controller. The watch fires when it goes, comes or changes."""
        node = await self.look(zk_paths.CONTROLLER, watch)
        return None if node is None else self.decoded(zk_paths.decode_controller, node[0])

    async def controller_epoch(self) -> tuple[int, int]:
        """The controller epoch and the version of its node, which is created in a new cluster.

        Raises ZnodeFormatError: without it nobody can be controller.
        """
        await self.create_if_absent(zk_paths.CONTROLLER_EPOCH, zk_paths.encode_controller_epoch(0))
        data, stat = await self.tree.get(zk_paths.CONTROLLER_EPOCH)
        return zk_paths.decode_controller_epoch(data), stat.version

    async def register_controller_and_raise_epoch(
        self, broker_id: int, above: int = 0
    ) -> tuple[int, int]:
        """Become controller: returns the new epoch, higher than `above`, and the version of its
        node.

        Raises ControllerMovedError.
        """
        last_epoch, version = await self.controller_epoch()
        epoch = max(last_epoch, above) + 1
        data = zk_paths.encode_controller(broker_id, self._clock.now_ms())
        try:
            await self.tree.multi(
                (
                    CreateOp(zk_paths.CONTROLLER, data, ephemeral=True),
                    SetOp(
                        zk_paths.CONTROLLER_EPOCH,
                        zk_paths.encode_controller_epoch(epoch),
                        version,
                    ),
                )
            )
        except (NodeExistsError, BadVersionError) as error:
            raise ControllerMovedError(f"broker {broker_id} lost the election") from error
        return epoch, version + 1

    async def delete_controller(self, epoch_version: int) -> None:
        """Give up the controller's seat."""
        with suppress(NoNodeError):
            await self.fenced((DeleteOp(zk_paths.CONTROLLER),), epoch_version)

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
        """Do each of many transactions if this is still the controller, as `Tree.multi_all`
        does.

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
        return await self.children(zk_paths.TOPICS, watch)

    async def topic_gone(self, topic: str) -> None:
        """Return when the tree no longer has the topic."""
        changed, path = asyncio.Event(), zk_paths.topic_path(topic)
        while await self.tree.exists(path, lambda _: changed.set()) is not None:
            await changed.wait()
            changed.clear()

    async def topic_assignment(
        self, topic: str, watch: Watch | None = None
    ) -> TopicAssignment | None:
        """A topic's id and replicas. The watch fires when they change."""
        return (await self.topic_assignments([topic], watch)).get(topic)

    async def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic, None if it does not exist or its node is damaged."""
        assignment = await self.topic_assignment(topic)
        return None if assignment is None else assignment.topic_id

    async def topic_assignments(
        self, topics: Sequence[str], watch: Watch | None = None
    ) -> dict[str, TopicAssignment]:
        """Ids and replicas of those topics that exist, in this order; each is watched."""
        found = await self._read_all(
            [zk_paths.topic_path(topic) for topic in topics],
            lambda path, data, _: zk_paths.decode_topic(_name(path), data),
            watch,
        )
        return {t: a for t, a in zip(topics, found, strict=True) if a is not None}

    async def existing_topics(self, names: Sequence[str]) -> set[str]:
        """The topics among these that exist."""
        nodes = await self.tree.get_all([zk_paths.topic_path(name) for name in names])
        return {name for name, node in zip(names, nodes, strict=True) if node is not None}

    async def create_topics(self, topics: Sequence[NewTopicNodes]) -> list[TreeError | None]:
        """Create topics with their overrides, each whole or not at all; the refusal of each, or
        None.

        The overrides come first, as in Kafka. Overrides without their topic are replaced. Refusals
        are NodeExistsError for a topic that exists, and NodeTooLargeError.
        """
        outcomes: dict[str, TreeError | None] = {}
        with_overrides: set[str] = set()
        pending = list(topics)
        for _ in range(MAX_CONFLICTS):
            transactions = [new.ops(replace=new.topic in with_overrides) for new in pending]
            for new, outcome in zip(pending, await self.tree.multi_all(transactions), strict=True):
                if isinstance(outcome, NodeExistsError) and outcome.op_index == 0:
                    with_overrides.add(new.topic)
                elif isinstance(outcome, NoNodeError):  # somebody removed it, or a parent, by hand
                    with_overrides.discard(new.topic)
                    await self.create_persistent_paths()
                else:
                    outcomes[new.topic] = outcome if isinstance(outcome, TreeError) else None
            pending = [new for new in pending if new.topic not in outcomes]
            if not pending:
                break
        return [outcomes.get(new.topic, NodeExistsError(new.topic)) for new in topics]

    async def topic_node(self, topic: str) -> tuple[TopicAssignment, int] | None:
        """A topic's id and replicas, and the version of its node."""
        found = await self._read_all(
            [zk_paths.topic_path(topic)],
            lambda path, data, stat: (zk_paths.decode_topic(_name(path), data), stat.version),
        )
        return found[0]

    async def grow_topic(self, topic: str, assignment: TopicAssignment, version: int) -> None:
        """Replace a topic's assignment if its node has this version.

        Raises NoNodeError, BadVersionError, NodeTooLargeError.
        """
        await self.tree.set(zk_paths.topic_path(topic), zk_paths.encode_topic(assignment), version)

    async def set_topic_assignment(
        self, topic: str, assignment: TopicAssignment, epoch_version: int
    ) -> None:
        """Replace a topic's assignment, as the controller. Raises NoNodeError."""
        op = SetOp(zk_paths.topic_path(topic), zk_paths.encode_topic(assignment))
        await self.fenced((op,), epoch_version)

    async def change_topic_assignment(
        self, topic: str, changes: Mapping[int, ReplicaAssignment], epoch_version: int
    ) -> None:
        """Replace assignments of partitions, whatever else was written. Raises NoNodeError."""
        path = zk_paths.topic_path(topic)
        for _ in range(MAX_CONFLICTS):
            data, stat = await self.tree.get(path)
            current = zk_paths.decode_topic(topic, data)
            changed = replace(current, partitions={**current.partitions, **changes})
            with suppress(BadVersionError):  # written by another in between: look again
                op = SetOp(path, zk_paths.encode_topic(changed), stat.version)
                await self.fenced((op,), epoch_version)
                return
        raise BadVersionError(path)

    async def delete_topics(self, topics: Mapping[str, Iterable[int]], epoch_version: int) -> None:
        """Remove topics with these partitions: nodes below, overrides, assignment, and the request
        to delete it. Other nodes below go as well.
        """
        transactions: list[Sequence[Op]] = []
        last: dict[str, int] = {}  # the transaction after which the name is free
        for topic, partitions in topics.items():
            transactions += topic_removal(topic, partitions)
            last[topic] = len(transactions) - 1
        outcomes = await self.fenced_all(transactions, epoch_version)
        for topic, number in last.items():
            if isinstance(outcomes[number], TreeError):  # something was added or removed by hand
                await self._delete_recursive(zk_paths.topic_path(topic), epoch_version)
                await self.delete_all([zk_paths.delete_topic_path(topic)], epoch_version)

    async def partition_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionStateZnode]:
        """The states of the partitions that have one."""
        wanted = list(partitions)
        found = await self._read_all(
            [zk_paths.partition_state_path(*topic_partition) for topic_partition in wanted],
            _state_read,
        )
        return {p: s for p, s in zip(wanted, found, strict=True) if s is not None}

    async def write_partition_states(
        self, writes: Iterable[PartitionStateWrite], controller_epoch: int, epoch_version: int
    ) -> dict[TopicPartition, int | None]:
        """Write states, each on its own; the value is the node's new version, or None if it had
        another version than expected. Raises ControllerMovedError: nothing after it was written.
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
        """Create the parents of new partitions' states that do not exist."""
        paths: dict[str, None] = {}
        for topic, partition in partitions:
            paths[zk_paths.partitions_path(topic)] = None
            paths[zk_paths.partition_path(topic, partition)] = None
        outcomes = await self.fenced_all([(CreateOp(path),) for path in paths], epoch_version)
        for outcome in outcomes:
            if isinstance(outcome, TreeError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    # ---- topic deletion

    async def create_delete_topics(self, topics: Sequence[str]) -> list[TreeError | None]:
        """Ask for topics to be deleted; NodeExistsError for each that somebody asked for before."""
        wishes = [(CreateOp(zk_paths.delete_topic_path(topic)),) for topic in topics]
        outcomes = await self.tree.multi_all(wishes)
        return [outcome if isinstance(outcome, TreeError) else None for outcome in outcomes]

    async def is_marked_for_deletion(self, topic: str) -> bool:
        """True while a topic waits to be deleted."""
        return await self.tree.exists(zk_paths.delete_topic_path(topic)) is not None

    async def topic_deletions(self, watch: Watch | None = None) -> list[str]:
        """Topics to delete. The watch fires when one is added."""
        return await self.children(zk_paths.DELETE_TOPICS, watch)

    async def delete_topic_deletions(self, topics: Iterable[str], epoch_version: int) -> None:
        await self.delete_all(
            [zk_paths.delete_topic_path(topic) for topic in topics], epoch_version
        )

    # ---- for all of them

    def report(self, error: ZnodeFormatError) -> None:
        """Report a node that is ignored to the operator, once."""
        text = str(error)
        if text not in self._reported:
            if len(self._reported) == _REPORTS:
                self._reported.clear()
            self._reported.add(text)
            _log.error("ignoring a node that Kafka cannot read: %s", text)

    def decoded(
        self, decode: Callable[P, NodeT], *args: P.args, **kwargs: P.kwargs
    ) -> NodeT | None:
        """Decode a node; None, after a report, if Kafka could not have written it."""
        try:
            return decode(*args, **kwargs)
        except ZnodeFormatError as error:
            self.report(error)
            return None

    async def look(self, path: str, watch: Watch | None) -> tuple[bytes | None, Stat] | None:
        """Data and stat; None without a node. The watch fires when it comes, goes or changes."""
        if await self.tree.exists(path, watch) is None:
            return None
        with suppress(NoNodeError):
            return await self.tree.get(path)
        return None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names of the children of a node, which is created if absent: a watch needs it."""
        while True:
            try:
                return await self.tree.children(path, watch)
            except NoNodeError:
                await self.create_if_absent(path)

    async def create_if_absent(self, path: str, data: bytes | None = None) -> None:
        """Create a node and its parents, unless it exists."""
        if await self.tree.exists(path) is None:
            with suppress(NodeExistsError):
                await self.tree.create(path, data, make_parents=True)

    async def delete_all(self, paths: Iterable[str], epoch_version: int) -> None:
        """Remove the existing ones of these nodes, in this order. Raises ControllerMovedError."""
        outcomes = await self.fenced_all([(DeleteOp(path),) for path in paths], epoch_version)
        for outcome in outcomes:
            if isinstance(outcome, TreeError) and not isinstance(outcome, NoNodeError):
                raise outcome

    # ---- inside

    async def _read_all(
        self,
        paths: Sequence[str],
        decode: Callable[[str, bytes | None, Stat], NodeT],
        watch: Watch | None = None,
    ) -> list[NodeT | None]:
        """The contents of many nodes; None for one that is missing or not Kafka's."""
        found: list[NodeT | None] = []
        for start in range(0, len(paths), _ROW_NODES):
            row = paths[start : start + _ROW_NODES]
            for path, node in zip(row, await self.tree.get_all(row, watch), strict=True):
                found.append(None if node is None else self.decoded(decode, path, *node))
        return found

    async def _names(self, path: str) -> list[str]:
        try:
            return await self.tree.children(path)
        except NoNodeError:
            return []

    async def _delete_recursive(self, path: str, epoch_version: int) -> None:
        for name in await self._names(path):
            await self._delete_recursive(f"{path}/{name}", epoch_version)
        with suppress(NoNodeError):
            await self.fenced((DeleteOp(path),), epoch_version)


def _state_read(path: str, data: bytes | None, stat: Stat) -> PartitionStateZnode:
    state = zk_paths.decode_partition_state(path, data, stat.version)
    return state if state.zxid else replace(state, zxid=stat.mzxid)


def _state_op(write: PartitionStateWrite, controller_epoch: int) -> CreateOp | SetOp:
    path = zk_paths.partition_state_path(*write.topic_partition)
    data = zk_paths.encode_partition_state(
        write.leader_and_isr, controller_epoch, write.caught_up_zxid
    )
    if write.expected_version is None:
        return CreateOp(path, data)
    return SetOp(path, data, write.expected_version)


def _written_version(outcome: list[OpResult] | TreeError) -> int | None:
    if isinstance(outcome, NodeExistsError | BadVersionError | NoNodeError):
        return None
    if isinstance(outcome, TreeError):
        raise outcome
    return outcome[0].version if isinstance(outcome[0], Stat) else 0


def _name(path: str) -> str:
    return path.rpartition("/")[2]
