"""Taking over data directories that Apache Kafka wrote: `kbroker start --data DIR --adopt`.

Law: without the operator's word nothing in the directory changes, not even the time of a file, and
no lock is left. With it, all of the plan goes into the tree in one transaction together with the
cluster's id, so that a directory is adopted whole or not at all, also when the process or the power
dies half way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from kbroker.admin.client_quota_changes import Place
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, Trouble
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import LOCK_FILE, parse_directory_name
from kbroker.model import (
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
)
from kbroker.server.adoption.adopt_option import AdoptionNeededError, AdoptOption
from kbroker.server.adoption.adopted_groups import group_ops, level_ops
from kbroker.server.adoption.adopted_tokens import token_ops
from kbroker.server.adoption.adoption_summary import proposal, report
from kbroker.server.adoption.internal_log import hashed_ids, likely_partition_count, producer_ids
from kbroker.server.adoption.kafka_directory import FoundDirectory, look_at_directory
from kbroker.server.adoption.kraft_metadata import (
    METADATA_DIRECTORY,
    ClusterMetadata,
    MetadataUnreadableError,
    read_cluster_metadata,
)
from kbroker.server.adoption.plan import AdoptionPlan, Recorded, make_plan
from kbroker.server.metadata_tree.broker_identity import new_cluster_id
from kbroker.zk import zk_paths
from kbroker.zk.nodes.acl_znodes import acl_path, encode_acls
from kbroker.zk.nodes.topic_ops import topic_ops
from kbroker.zk.tree import CreateOp, NodeExistsError, Op, SetOp
from kbroker.zk.zk_paths import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock
from kbroker.zk.zk_utils import ZkUtils

# Blocks of producer ids left free above the highest one known. A client may come back with an id
# that another broker of the cluster gave it, and Apache Kafka goes on with its own ids when it gets
# the directory back; records under an id that is used twice pass for duplicates and are lost.
_SPARE_PRODUCER_ID_BLOCKS = 1000


class Adoption:
    """One start's adoption, if there is one to make."""

    def __init__(self, wish: AdoptOption, file_system: FileSystem) -> None:
        self._wish = wish
        self._file_system = file_system
        self._paths = wish.paths

    def check_agreed(self) -> None:
        """Refuse if there is something to adopt; nothing is locked or written.

        Raises AdoptionNeededError, LogDirectoryError.
        """
        self._check_unused()
        plan = self._propose()
        if plan is not None:
            raise AdoptionNeededError(proposal(plan))

    async def carry_out(self, zk: ZkUtils) -> str:
        """Take over the topics, under the directories' locks. Returns the sentence that says so.

        Raises AdoptionNeededError, LogDirectoryError, ConfigError.
        """
        plan = self._propose()
        if plan is None:
            return f"--adopt has no effect: {', '.join(self._paths)} holds no partitions"
        if not self._wish.is_agreed:  # an adoption before this one did not get to its end
            raise AdoptionNeededError(proposal(plan))
        await self._write(zk, plan)
        return report(plan)

    async def _write(self, zk: ZkUtils, plan: AdoptionPlan) -> None:
        try:
            highest_id = max(_transactional_producer_ids(plan, self._file_system), default=-1)
        except StorageError as error:
            raise LogDirectoryError(f"A data directory cannot be used: {error}") from error
        with suppress(NodeExistsError):
            await zk.tree.create(zk_paths.CLUSTER_ID.rpartition("/")[0], make_parents=True)
        cluster_id = (
            (plan.meta.cluster_id if plan.meta else None)
            or self._wish.cluster_id
            or new_cluster_id()
        )
        broker_id = _broker_id(plan, self._wish.config)
        await zk.tree.multi(
            [
                *_producer_id_ops(plan, broker_id, highest_id),
                *(op for topic in plan.topics for op in topic_ops(topic, broker_id)),
                *_entity_ops(plan),
                *_acl_ops(plan),
                *token_ops(plan.tokens),
                *group_ops(plan.groups),
                *level_ops(plan.levels),
                CreateOp(zk_paths.CLUSTER_ID, zk_paths.encode_cluster_id(cluster_id)),
            ]
        )

    def _propose(self) -> AdoptionPlan | None:
        """Return the plan; None if there is nothing to adopt."""
        try:
            found = [look_at_directory(self._file_system, path) for path in self._paths]
            if not any(directory.partitions for directory in found):
                return None
            metadata, problem = self._read_metadata(found)
            counts = {} if metadata is not None else self._internal_counts(found)
        except (StorageError, CheckpointError) as error:
            raise LogDirectoryError(f"A data directory cannot be used: {error}") from error
        plan = make_plan(found, Recorded(metadata, problem, counts), self._wish.config)
        cluster_id = plan.meta.cluster_id if plan.meta is not None else None
        if self._wish.cluster_id and cluster_id not in (None, self._wish.cluster_id):
            raise LogDirectoryError(
                f"Data directory {found[0].path} belongs to cluster {cluster_id}, but CLUSTER_ID "
                f"is set to {self._wish.cluster_id}: leave it out, or set it to {cluster_id}"
            )
        return plan

    def _read_metadata(
        self, found: Sequence[FoundDirectory]
    ) -> tuple[ClusterMetadata | None, str | None]:
        homes = [directory.path for directory in found if directory.has_kraft_metadata]
        named = self._wish.config.quorum.metadata_log_dir
        if named is not None and self._file_system.is_directory(f"{named}/{METADATA_DIRECTORY}"):
            homes.insert(0, named)
        if not homes:
            return None, None
        try:
            path = f"{homes[0]}/{METADATA_DIRECTORY}"
            return read_cluster_metadata(self._file_system, path), None
        except MetadataUnreadableError as error:
            return None, str(error)

    def _internal_counts(self, found: Sequence[FoundDirectory]) -> dict[str, int]:
        """Count the partitions of Kafka's own topics. They keep ids by hash, so a wrong number,
        because the last ones lay on another broker, would hide groups and transactions.
        """
        ids: dict[str, dict[int, set[str]]] = {}
        for directory in found:
            for here in directory.partitions:
                topic, partition = here.topic_partition
                if topic in INTERNAL_TOPICS:
                    held = hashed_ids(self._file_system, here.path)
                    ids.setdefault(topic, {})[partition] = held
        return {topic: likely_partition_count(held) for topic, held in ids.items()}

    def _check_unused(self) -> None:
        """Refuse a directory that a broker works on right now: it changes while it is read."""
        for path in self._paths:
            if not self._file_system.exists(f"{path}/{LOCK_FILE}"):
                continue
            try:
                lock = self._file_system.lock(f"{path}/{LOCK_FILE}")
            except StorageError as error:
                raise LogDirectoryError(f"Data directory {path} cannot be used: {error}") from error
            if lock is None:
                raise LogDirectoryError(
                    f"Data directory {path} is in use by another broker: stop that one first",
                    Trouble.DIRECTORY_IN_USE,
                )
            lock.release()


def _broker_id(plan: AdoptionPlan, config: KafkaConfig) -> int:
    if plan.meta is not None and plan.meta.broker_id is not None:
        return plan.meta.broker_id
    if config.server.broker_id < 0:
        raise ConfigError(
            f"{plan.paths[0]} does not say which broker wrote it: set broker.id to adopt it"
        )
    return config.server.broker_id


def _producer_id_ops(plan: AdoptionPlan, broker_id: int, highest_id: int) -> Iterator[Op]:
    """Let new producer ids begin at ones that Apache Kafka cannot have, before or after."""
    known_id = max(highest_id, (plan.next_producer_id or 0) - 1)
    last_id = known_id + _SPARE_PRODUCER_ID_BLOCKS * PRODUCER_ID_BLOCK_SIZE
    block = ProducerIdBlock(broker_id=broker_id, first_id=last_id, last_id=last_id)
    yield SetOp(zk_paths.PRODUCER_ID_BLOCK, zk_paths.encode_producer_id_block(block))


def _entity_ops(plan: AdoptionPlan) -> Iterator[Op]:
    """Make the nodes of users and of quotas: a user's have both."""
    nodes: dict[Place, dict[str, str]] = {
        Place(zk_paths.USER_CONFIGS, zk_paths.sanitized(user)): dict(stored)
        for user, stored in plan.users.items()
    }
    for place, stored in plan.quotas.items():
        nodes.setdefault(place, {}).update(stored)
    made: set[str] = set()
    for place in sorted(nodes):  # a user before the client ids within
        path = zk_paths.config_path(*place)
        user, _, inner = place.name.partition("/")
        for name in (user, f"{user}/{zk_paths.CLIENT_CONFIGS}") if inner else ():
            folder = zk_paths.config_path(place.entity_type, name)
            if folder not in made:
                made.add(folder)
                yield CreateOp(folder)
        made.add(path)
        yield CreateOp(path, zk_paths.encode_config(nodes[place]))


def _acl_ops(plan: AdoptionPlan) -> Iterator[Op]:
    made: set[str] = {""}
    for pattern, acls in plan.acls.items():
        path = acl_path(pattern)
        for length in (at for at, character in enumerate(path) if character == "/"):
            if path[:length] not in made:
                made.add(path[:length])
                yield CreateOp(path[:length])
        yield CreateOp(path, encode_acls(acls))


def _transactional_producer_ids(plan: AdoptionPlan, file_system: FileSystem) -> Iterator[int]:
    """The producer ids in `__transaction_state`: they outlive the producers' records."""
    for path in plan.paths:
        for name in file_system.list(path):
            topic_partition = parse_directory_name(name)
            if topic_partition is not None and topic_partition.topic == TRANSACTION_STATE_TOPIC:
                yield from producer_ids(file_system, f"{path}/{name}")
