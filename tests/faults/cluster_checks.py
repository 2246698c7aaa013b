"""What must hold of a simulated cluster once nothing troubles it any more: everybody knows and does
what the tree says, and nothing is left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from kbroker.errors import KafkaError
from kbroker.log.disk.format import MOVED_DIRECTORY_SUFFIXES
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import NO_LEADER, ReplicaAssignment, TopicPartition
from kbroker.record.legacy_record import HEADER_SIZE_UP_TO_MAGIC, read_any_header
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_paths import PartitionStateZnode, TopicAssignment
from tests.faults.cluster_model import ClusterModel
from tests.faults.cluster_process import LOG_DIRS, BrokerProcess, SimulatedDisk

STANDING_WISHES = frozenset({"delete_topics"})  # the parent of wishes
# Tasks that a broker at rest has; "controller to broker N" only where it is the controller.
STANDING_TASKS = frozenset(
    {
        "ISR changes",
        "changed access rules",
        "changed settings",
        "controller events",
        "notifications of /config/changes",
        "notifications of /kafka-acl-changes",
        "notifications of /kafka-acl-extended-changes",
        "the cluster's features",
        "request",  # of a follower, which waits for records
        "upkeep",
    }
)


class TreeContents:
    """The cluster as the tree has it now."""

    def __init__(self, store: EmbeddedTree) -> None:
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, PartitionStateZnode] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.brokers: dict[int, int] = {}  # epochs
        self.controller_id = NO_LEADER
        self.controller_epoch = 0
        self.wishes: list[str] = []
        for path, data, stat in store.dump():
            parts = path.split("/")
            if path == zk_paths.CONTROLLER:
                self.controller_id = zk_paths.decode_controller(data)
            elif path == zk_paths.CONTROLLER_EPOCH:
                self.controller_epoch = int(data or b"0")
            elif path.startswith("/brokers/ids/"):
                self.brokers[int(parts[3])] = stat.czxid
            elif path.startswith("/brokers/topics/") and len(parts) == 4:
                self.topics[parts[3]] = zk_paths.decode_topic(parts[3], data)
            elif path.startswith("/brokers/topics/") and path.endswith("/state"):
                partition = TopicPartition(parts[3], int(parts[5]))
                self.states[partition] = zk_paths.decode_partition_state(path, data, stat.version)
            elif path.startswith("/config/topics/"):
                self.configs[parts[3]] = zk_paths.decode_config(path, data)
            elif path.startswith("/admin/"):
                self.wishes.append("/".join(parts[2:4]))

    def has_replica(self, partition: TopicPartition, broker_id: int) -> bool:
        """True where the tree has a replica of the partition on the broker."""
        assignment = self.topics.get(partition.topic)
        replicas = assignment.partitions.get(partition.partition) if assignment else None
        return replicas is not None and broker_id in replicas.replicas


class RestCheck:
    """`findings` are sentences about what is not as it should be, yet."""

    def __init__(
        self, store: EmbeddedTree, processes: Sequence[BrokerProcess], model: ClusterModel
    ) -> None:
        self.tree = TreeContents(store)
        self.processes = processes
        self.model = model

    def findings(self) -> Iterator[str]:
        yield from self._of_the_tree()
        controllers = [p for p in self.processes if p.controller.is_active]
        if [p.broker_id for p in controllers] != [self.tree.controller_id]:
            yield f"controllers are {controllers}, the tree says {self.tree.controller_id}"
        for process in self.processes:
            yield from (f"{process}: {text}" for text in self._of_a_broker(process))

    def _of_the_tree(self) -> Iterator[str]:
        tree = self.tree
        wishes = [wish for wish in tree.wishes if wish not in STANDING_WISHES]
        if wishes:
            yield f"wishes that wait: {wishes}"
        for name, assignment in tree.topics.items():
            for index, partition in assignment.partitions.items():
                yield from self._of_a_partition(TopicPartition(name, index), partition)
        for process in self.processes:
            if tree.brokers.get(process.broker_id) != process.broker_epoch:
                yield f"{process} is registered as {tree.brokers.get(process.broker_id)}"

    def _of_a_partition(self, name: TopicPartition, partition: ReplicaAssignment) -> Iterator[str]:
        state = self.tree.states.get(name)
        if partition.adding_replicas or partition.removing_replicas:
            yield f"{name} is being reassigned: {partition}"
        if state is None:
            yield f"{name} has no state"
        elif state.leader_and_isr.leader not in partition.replicas:
            yield f"{name} has no leader: {state.leader_and_isr}"
        elif state.leader_and_isr.leader not in self.tree.brokers:
            yield f"{name} is led by a dead broker: {state.leader_and_isr}"
        elif set(state.leader_and_isr.isr) != set(partition.replicas):
            yield f"{name} has not all in sync: {state.leader_and_isr}"
        else:
            yield from self._of_copies(name, state)

    def _of_copies(self, partition: TopicPartition, state: PartitionStateZnode) -> Iterator[str]:
        """The logs of all replicas are the leader's, byte for byte."""
        logs = {
            process.broker_id: log
            for process in self.processes
            if (log := process.logs.get_log(partition)) is not None
        }
        leader = logs.get(state.leader_and_isr.leader)
        for broker_id, log in logs.items() if leader is not None else ():
            if broker_id not in state.leader_and_isr.isr:
                continue
            start = max(log.log_start_offset, leader.log_start_offset)
            ends = (log.log_end_offset, log.high_watermark)
            if ends != (leader.log_end_offset, leader.high_watermark):
                yield f"{partition} on {broker_id} ends at {ends}, on its leader at " + str(
                    (leader.log_end_offset, leader.high_watermark)
                )
            elif readable_bytes_of(log, start) != readable_bytes_of(leader, start):
                yield f"{partition} on {broker_id} differs from its leader's"

    def _of_a_broker(self, process: BrokerProcess) -> Iterator[str]:
        yield from self._of_metadata(process)
        yield from self._of_partitions(process)
        yield from self._of_settings(process)
        yield from self._of_tasks(process)

    def _of_metadata(self, process: BrokerProcess) -> Iterator[str]:
        tree, metadata = self.tree, process.metadata
        if metadata.controller_id != tree.controller_id:
            yield f"takes {metadata.controller_id} for controller, not {tree.controller_id}"
        alive = [broker.broker_id for broker in metadata.alive_brokers()]
        if alive != sorted(tree.brokers):
            yield f"takes brokers {alive} for alive, not {sorted(tree.brokers)}"
        known = dict(metadata.topic_ids())
        wanted = {name: assignment.topic_id for name, assignment in tree.topics.items()}
        if known != wanted:
            yield f"knows other topics: {_difference(known, wanted)}"
        for partition, state in tree.states.items():
            found = metadata.partition_state(partition)
            leadership = state.leader_and_isr
            has = found and (found.leader, found.leader_epoch, tuple(found.isr), found.zk_version)
            wants = (
                leadership.leader,
                leadership.leader_epoch,
                leadership.isr,
                leadership.partition_epoch,
            )
            if has != wants:
                yield f"has for {partition} {has}, the tree {wants}"
            elif found is not None:
                yield from self._of_replicas(partition, found.replicas, found.offline_replicas)
        for name, assignment in tree.topics.items():
            if metadata.partition_count(name) != len(assignment.partitions):
                yield f"knows {metadata.partition_count(name)} partitions of {name}"

    def _of_replicas(
        self, partition: TopicPartition, replicas: list[int], offline: list[int]
    ) -> Iterator[str]:
        wanted = self.tree.topics[partition.topic].partitions[partition.partition].replicas
        if tuple(replicas) != wanted:
            yield f"has replicas {replicas} of {partition}, the tree {wanted}"
        if offline:
            yield f"takes replicas {offline} of {partition} for offline"

    def _of_partitions(self, process: BrokerProcess) -> Iterator[str]:
        tree = self.tree
        ours = {
            TopicPartition(name, index): assignment.topic_id
            for name, assignment in tree.topics.items()
            for index, replicas in assignment.partitions.items()
            if process.broker_id in replicas.replicas
        }
        for partition, topic_id in ours.items():
            hosted = process.replicas.hosted.find(partition)
            state = tree.states.get(partition)
            if self._is_barred(process, partition, topic_id):
                continue
            if hosted is None or state is None:
                yield f"does not hold {partition}"
                continue
            leadership = state.leader_and_isr
            has = (hosted.topic_id, hosted.leader_epoch, hosted.is_leader)
            wants = (topic_id, leadership.leader_epoch, leadership.leader == process.broker_id)
            if has != wants:
                yield f"holds {partition} as {has}, not {wants}"
        yield from self._left_over(process, ours)

    def _is_barred(self, process: BrokerProcess, partition: TopicPartition, topic_id: UUID) -> bool:
        """True where a replica was taken away while its broker was out of reach: as in Kafka its
        log stays, and keeps a later topic of the same name from this broker once it has started
        again.
        """
        return process.replicas.hosted.find(partition) is None and any(
            (broker_id, held) == (process.broker_id, partition) and of_topic != topic_id
            for broker_id, held, of_topic in self.model.removed
        )

    def _left_over(
        self, process: BrokerProcess, ours: Mapping[TopicPartition, UUID]
    ) -> Iterator[str]:
        # As in Kafka, a broker that was away when its replica was taken away keeps the log.
        ours = dict(ours)
        for broker_id, partition, topic_id in self.model.removed:
            if broker_id == process.broker_id:
                ours.setdefault(partition, topic_id)
        for hosted in process.replicas.hosted:
            if hosted.topic_partition not in ours:
                yield f"holds {hosted.topic_partition}, which is none of its own"
        for log in process.logs.all_logs():
            if log.topic_partition not in ours:
                yield f"has a stray log of {log.topic_partition}"
        for directory in directories_on(process.disk):
            name = directory.rpartition("/")[2]
            if name not in {str(partition) for partition in ours}:
                yield f"has a stray directory {directory}"

    def _of_settings(self, process: BrokerProcess) -> Iterator[str]:
        hosted = {
            partition.topic_partition.topic
            for partition in process.replicas.hosted
            if self.tree.has_replica(partition.topic_partition, process.broker_id)
        }
        for name in sorted(hosted):
            wants = self.tree.configs.get(name, {})
            has = process.overrides(name)
            # Of topics it does not work with, it has what it heard last: nothing depends on that.
            if has != wants:
                yield f"has settings {process.overrides(name)} of {name}, the tree {wants}"
            for log in process.logs.all_logs():
                is_its_own = self.tree.has_replica(log.topic_partition, process.broker_id)
                is_of_topic = log.topic_partition.topic == name and is_its_own
                if not is_of_topic or "retention.ms" not in wants:
                    continue
                if log.config.retention_ms != int(wants["retention.ms"]):
                    yield f"its log of {name} keeps {log.config.retention_ms} ms, the tree {wants}"

    def _of_tasks(self, process: BrokerProcess) -> Iterator[str]:
        names = sorted(task.get_name() for task in process.owner.tasks if not task.done())
        left = [
            name for name in names if name not in STANDING_TASKS and not name.startswith("fetcher ")
        ]
        if process.controller.is_active:
            wanted = [f"controller to broker {b}" for b in sorted(self.tree.brokers)]
            if left != wanted:
                yield f"tasks are {left}"
        elif left:
            yield f"tasks are left: {left}"
        if process.controller.queue._events:
            yield f"events are queued: {list(process.controller.queue._events)[:3]}"


def bytes_of(log: Log, start_offset: int) -> bytes:
    """All batches of a log that begin at an offset or later."""
    return b"".join(data for base_offset, data in batches_in(log) if base_offset >= start_offset)


def readable_bytes_of(log: Log, start_offset: int) -> bytes | str:
    """As `bytes_of`; a sentence where the log is damaged."""
    try:
        return bytes_of(log, start_offset)
    except KafkaError as error:
        return str(error)


def batches_in(log: Log) -> Iterator[tuple[int, bytes]]:
    """(base offset, bytes) of all batches of a log."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        info = log.read(offset, 1 << 20, FetchIsolation.LOG_END, True)
        data = bytes(info.records.read())
        if not data:
            return
        position = 0
        while len(data) - position >= HEADER_SIZE_UP_TO_MAGIC:
            header = read_any_header(data, position)
            end = position + header.size_bytes
            if header.next_offset > offset:
                yield header.base_offset, data[position:end]
            position, offset = end, header.next_offset


def directories_on(disk: SimulatedDisk) -> Iterator[str]:
    """Directories of partitions that are not on their way out."""
    for root in LOG_DIRS:
        if not disk.is_directory(root):
            continue
        for name in disk.list(root):
            is_going = name.endswith(MOVED_DIRECTORY_SUFFIXES)
            if disk.is_directory(f"{root}/{name}") and not is_going:
                yield f"{root}/{name}"


def topic_id_in(disk: SimulatedDisk, directory: str) -> UUID | None:
    """The topic id a log directory says, None for none."""
    path = f"{directory}/partition.metadata"
    if not disk.exists(path):
        return None
    for line in disk.read_bytes(path).decode().splitlines():
        name, _, value = line.partition(": ")
        if name == "topic_id":
            return zk_paths.decode_uuid(value)
    return None


def lost_records(processes: Sequence[BrokerProcess], model: ClusterModel) -> Iterator[str]:
    """Records that producers were told of, and that their leader lacks while their topic lives."""
    for (partition, topic_id), records in model.acknowledged.items():
        life = model.lives[topic_id]
        if life.is_gone or life.is_marked:
            continue
        led = [
            log
            for process in processes
            if (held := process.replicas.hosted.find(partition)) is not None
            and held.is_leader
            and (log := held.log).topic_id == topic_id
        ]
        if not led:
            yield f"nobody leads {partition}, which had {len(records)} records"
            continue
        held_bytes = [(offset, data) for log in led for offset, data in batches_in(log)]
        content = dict(held_bytes)
        lost = [record for record in records if record.value not in content.get(record.offset, b"")]
        if lost:
            yield f"{len(lost)} of {len(records)} records of {partition} are lost: {lost[:5]}"


def _difference(has: dict[str, UUID], wants: dict[str, UUID]) -> str:
    more = sorted(set(has) - set(wants))
    less = sorted(set(wants) - set(has))
    other = sorted(name for name in set(has) & set(wants) if has[name] != wants[name])
    return f"too many {more}, missing {less}, of another id {other}"
