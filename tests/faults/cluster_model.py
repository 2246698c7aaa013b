"""What must hold of a simulated cluster at every moment.

The tree is the truth, and the model sees each transaction as it is committed: who may write what,
and how epochs go. What brokers were ordered, what they answered to producers, and what people were
told of their wishes is kept, to be compared with the tree (`cluster_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from kbroker.errors import ErrorCode
from kbroker.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.zk import zk_paths
from kbroker.zk.embedded.data_tree import DataTree
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import CheckOp, CreateOp, DeleteOp, Op, OpResult, SessionState, SetOp
from kbroker.zk.zk_paths import PartitionStateZnode, TopicAssignment
from tests.faults.cluster_process import BrokerProcess


class Violation(NamedTuple):
    """Something that must never be."""

    time: float
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.time:.3f} {self.kind}: {self.text}"


@dataclass(slots=True)
class TopicLife:
    """One topic from its creation to its end."""

    name: str
    topic_id: UUID
    is_marked: bool = False  # somebody wished it deleted
    is_gone: bool = False


class Acknowledged(NamedTuple):
    """A record a producer was told of."""

    offset: int
    value: bytes


LogKey = tuple[int, TopicPartition, UUID]  # broker, partition, topic id
PartitionKey = tuple[TopicPartition, UUID]


@dataclass(slots=True)
class ClusterModel:
    """`now` gives the time for what is said."""

    now: Callable[[], float]
    violations: list[Violation] = field(default_factory=list)
    topics: dict[str, TopicLife] = field(default_factory=dict)  # those in the tree
    lives: dict[UUID, TopicLife] = field(default_factory=dict)
    acknowledged: dict[PartitionKey, list[Acknowledged]] = field(default_factory=dict)
    replicas: set[LogKey] = field(default_factory=set)  # as ordered by the tree
    removed: set[LogKey] = field(default_factory=set)  # that were taken away by a reassignment
    created: dict[UUID, int] = field(default_factory=dict)  # told so: partitions at least
    leader_epochs: dict[tuple[UUID, int], tuple[int, int]] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)  # (controller epoch, session)
    on_topic_gone: Callable[[TopicLife], None] = lambda _: None
    trace: list[str] | None = None
    digest: int = 0  # the same for the same history
    tolerated: frozenset[str] = frozenset()  # kinds of violations that are known already
    is_over: bool = False  # what is still said belongs to no history

    def say(self, line: str) -> None:
        """Keep a line of what happens: in the digest, and whole when somebody wants to read it."""
        text = f"{self.now():9.3f} {line}"
        self.digest = crc32(text.encode(), self.digest)
        if self.trace is not None:
            self.trace.append(text)

    def overhear(self, line: str) -> None:
        """Keep what a broker says; it may name things in any order, so it is not in the digest."""
        if self.trace is not None:
            self.trace.append(f"{self.now():9.3f} log: {line}")

    def violate(self, kind: str, text: str) -> None:
        """Note something that must never be."""
        if kind in self.tolerated or self.is_over:
            return
        self.say(f"VIOLATION {kind}: {text}")
        self.violations.append(Violation(self.now(), kind, text))

    # ---- the tree

    def on_commit(
        self, tree: DataTree, ops: Sequence[Op], results: Sequence[OpResult], session_id: int
    ) -> None:
        """A transaction has been done."""
        self._check_reign(tree, ops, session_id)
        for op, result in zip(ops, results, strict=True):
            if isinstance(op, CreateOp):
                assert isinstance(result, str)
                self._created(tree, result, op.data)
                self._written(tree, result, op.data, ops)
            elif isinstance(op, SetOp):
                self._written(tree, op.path, op.data, ops)
            elif isinstance(op, DeleteOp):
                self._deleted(op.path, ops)

    def _check_reign(self, tree: DataTree, ops: Sequence[Op], session_id: int) -> None:
        seats = [op for op in ops if isinstance(op, CreateOp) and op.path == zk_paths.CONTROLLER]
        raises = [op for op in ops if isinstance(op, SetOp) and op.path == EPOCH]
        if len(seats) != len(raises):
            self.violate("reign without epoch", f"{list(ops)}")
        for op in raises:
            epoch = int(op.data or b"0")
            last = self.epochs[-1][0] if self.epochs else 0
            if epoch != last + 1:
                self.violate("controller epoch", f"{epoch} after {last}")
            self.epochs.append((epoch, session_id))

    def _created(self, tree: DataTree, path: str, data: bytes | None) -> None:
        parts = path.split("/")
        if path.startswith(f"{zk_paths.TOPICS}/") and len(parts) == 4:
            assignment = zk_paths.decode_topic(parts[3], data)
            life = TopicLife(parts[3], assignment.topic_id)
            life.is_marked = tree.find(zk_paths.delete_topic_path(parts[3])) is not None
            self.topics[parts[3]] = self.lives[assignment.topic_id] = life
            self.say(f"tree: topic {parts[3]} {_short(assignment.topic_id)} {_layout(assignment)}")
        elif path.startswith(f"{zk_paths.DELETE_TOPICS}/"):
            life_of = self.topics.get(parts[3])
            self.say(f"tree: topic {parts[3]} is to be deleted")
            if life_of is not None:
                life_of.is_marked = True

    def _written(self, tree: DataTree, path: str, data: bytes | None, ops: Sequence[Op]) -> None:
        if path.endswith("/state") and path.startswith(f"{zk_paths.TOPICS}/") and data:
            parts = path.split("/")
            self._state_written(tree, TopicPartition(parts[3], int(parts[5])), path, data, ops)
        elif path in (EPOCH, zk_paths.CONTROLLER) or path.startswith(f"{zk_paths.CONFIG}/"):
            self.say(f"tree: {path} {(data or b'').decode()}")
        elif path.startswith(f"{zk_paths.TOPICS}/") and path.count("/") == 3:
            self._assigned(zk_paths.decode_topic(path.rpartition("/")[2], data))

    def _assigned(self, assignment: TopicAssignment) -> None:
        """Replicas that are taken away take their records with them."""
        self.say(f"tree: {_short(assignment.topic_id)} is on {_layout(assignment)}")
        life = self.lives[assignment.topic_id]
        numbers = {p.partition for _, p, id_ in self.replicas if id_ == assignment.topic_id}
        lost = sorted(numbers - set(assignment.partitions))
        if lost and not life.is_marked:  # a topic that is being deleted does not grow any more
            self.violate("partitions lost", f"{lost} of {life.name}")
        for key in list(self.replicas):
            _, partition, topic_id = key
            replicas = assignment.partitions.get(partition.partition)
            if topic_id != assignment.topic_id or replicas is None:
                continue
            if key[0] not in replicas.replicas:
                self.replicas.discard(key)
                self.removed.add(key)
        for number, replicas in assignment.partitions.items():
            self.replicas |= {
                (b, TopicPartition(life.name, number), assignment.topic_id)
                for b in replicas.replicas
            }

    def _state_written(
        self,
        tree: DataTree,
        partition: TopicPartition,
        path: str,
        data: bytes,
        ops: Sequence[Op],
    ) -> None:
        state = zk_paths.decode_partition_state(path, data, 0)
        self._check_writer(tree, partition, state, ops)
        life = self.topics.get(partition.topic)
        if life is None:
            self.violate("state of no topic", f"{partition}")
            return
        leadership = state.leader_and_isr
        self.say(
            f"tree: {partition} leader {leadership.leader} epoch {leadership.leader_epoch} "
            f"isr {leadership.isr}"
        )
        key = (life.topic_id, partition.partition)
        leader, epoch = self.leader_epochs.get(key, (leadership.leader, -1))
        went_back = leadership.leader_epoch < epoch
        unchanged = leadership.leader_epoch == epoch and leadership.leader != leader
        if went_back or unchanged:
            self.violate(
                "leader epoch",
                f"{partition}: {leadership.leader} at {leadership.leader_epoch} after "
                f"{leader} at {epoch}",
            )
        self.leader_epochs[key] = (leadership.leader, leadership.leader_epoch)

    def _check_writer(
        self,
        tree: DataTree,
        partition: TopicPartition,
        state: PartitionStateZnode,
        ops: Sequence[Op],
    ) -> None:
        if not any(isinstance(op, CheckOp) and op.path == EPOCH for op in ops):
            self.violate("unfenced write", f"state of {partition}")
        now = int(tree.require(EPOCH).data or b"0")
        if state.controller_epoch != now:
            self.violate(
                "write of a fenced controller",
                f"state of {partition} at epoch {state.controller_epoch}, now {now}",
            )

    def _deleted(self, path: str, ops: Sequence[Op]) -> None:
        parts = path.split("/")
        if not (path.startswith(f"{zk_paths.TOPICS}/") and len(parts) == 4):
            return
        life = self.topics.pop(parts[3])
        life.is_gone = True
        self.say(f"tree: topic {life.name} {_short(life.topic_id)} is gone")
        if not life.is_marked:
            self.violate("topic removed unasked", life.name)
        if not any(isinstance(op, CheckOp) and op.path == EPOCH for op in ops):
            self.violate("unfenced write", f"removal of topic {life.name}")
        self.on_topic_gone(life)

    # ---- the brokers

    def on_order(
        self, process: BrokerProcess, request: ControlRequest, response: ControlResponse
    ) -> None:
        """A broker has worked an order, or refused it."""
        if response.error_code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH):
            return
        if request.controller_epoch < process.latest_controller_epoch:
            self.violate(
                "order of an older controller",
                f"{process}: {type(request).__name__} of epoch {request.controller_epoch} after "
                f"{process.latest_controller_epoch}",
            )
        process.latest_controller_epoch = max(
            process.latest_controller_epoch, request.controller_epoch
        )

    def on_request(
        self, process: BrokerProcess, request: ControlRequest, epoch: int, response: ControlResponse
    ) -> None:
        """A broker has answered a whole request, which it got when `epoch` was its own."""
        is_stale = request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < epoch
        if is_stale and not response.error_code:
            self.violate(
                "order for an earlier life",
                f"{process}: {type(request).__name__} for broker epoch {request.broker_epoch}, "
                f"its own is {epoch}",
            )

    def check_controllers(self, processes: Sequence[BrokerProcess], store: EmbeddedTree) -> None:
        """At most one broker is controller and can write."""
        reigning = [
            (process, controller, context)
            for process in processes
            if (context := (controller := process.controller).context) is not None
        ]
        node = store._tree.find(EPOCH) if reigning else None
        able = []
        for process, controller, context in reigning:
            if controller.is_active and process.tree.state is not SessionState.CONNECTED:
                self.violate("controller without session", f"{process}: {process.tree.state}")
            if node is not None and node.version == context.epoch_version:
                able.append(process)
        if len(able) > 1:
            self.violate("two controllers", f"{able}")

    # ---- the producers

    def on_append(
        self, partition: TopicPartition, topic_id: UUID, acknowledged: Acknowledged
    ) -> None:
        """A producer was told that all replicas in sync have its record."""
        life = self.lives.get(topic_id)
        if life is None:
            self.violate("append to a deleted topic", f"{partition} {_short(topic_id)}")
        self.acknowledged.setdefault((partition, topic_id), []).append(acknowledged)


class ObservedTree(EmbeddedTree):
    """Shows each transaction to the model."""

    model: ClusterModel | None = None

    def _commit(self, ops: Sequence[Op], session_id: int, *, lazy: bool = False) -> list[OpResult]:
        results = super()._commit(ops, session_id, lazy=lazy)
        if self.model is not None:
            self.model.on_commit(self._tree, ops, results, session_id)
        return results


EPOCH = zk_paths.CONTROLLER_EPOCH


def _short(topic_id: UUID) -> str:
    return topic_id.hex[:6]


def _layout(assignment: TopicAssignment) -> str:
    return " ".join(f"{p}:{list(a.replicas)}" for p, a in assignment.partitions.items())
