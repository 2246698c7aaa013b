"""Reads of KRaft's metadata log the topics of a cluster, their ids, partitions and settings, and
counts what this broker cannot take over.

Law: read only, never written. The newest snapshot comes first, then the log after it. A batch torn
at the end of the log ends it; anything else that is broken, missing or newer than known raises
MetadataUnreadableError, because half of the metadata would bring deleted topics back.

    __cluster_metadata-0/<end offset, 20 digits>-<epoch, 10 digits>.checkpoint   snapshot
                         <base offset, 20 digits>.log                            segment
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from uuid import UUID

from kbroker.errors import KafkaError, ProtocolError
from kbroker.inspection.partition_files import sort_files
from kbroker.inspection.segment_scan import ScannedBatch, SegmentScan
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import log_file
from kbroker.model import CLUSTER_METADATA_TOPIC
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import BatchHeader, records
from kbroker.sasl.scram_keys import ScramCredential
from kbroker.server.adoption import kraft_records as kinds

Entity = tuple[tuple[str, str | None], ...]  # types with their names, None is the default

METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"


class MetadataUnreadableError(Exception):
    """The metadata log cannot be trusted; the message names the place and the reason."""


@dataclass(slots=True)
class KraftTopic:
    """A topic as the metadata has it: by partition the leader epoch, the in-sync brokers, and the
    brokers that left the ISR without missing a committed record (KIP-966).
    """

    name: str
    topic_id: UUID
    leader_epochs: dict[int, int] = field(default_factory=dict)
    in_sync: dict[int, tuple[int, ...]] = field(default_factory=dict)
    eligible: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterMetadata:
    """The metadata after its last record."""

    topics: dict[UUID, KraftTopic] = field(default_factory=dict)
    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    group_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    other_settings: dict[tuple[int, str, str], str] = field(default_factory=dict)
    feature_levels: dict[str, int] = field(default_factory=dict)
    scram_credentials: dict[tuple[str, int], ScramCredential] = field(default_factory=dict)
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    acls: dict[UUID, kinds.AccessControlEntryRecord] = field(default_factory=dict)
    tokens: dict[str, kinds.DelegationTokenRecord] = field(default_factory=dict)
    next_producer_id: int = 0


def read_cluster_metadata(file_system: FileSystem, directory: str) -> ClusterMetadata:
    """The metadata in `directory`. Raises MetadataUnreadableError."""
    try:
        found = map(kinds.read_metadata_record, _record_values(file_system, directory))
        return replay(message for message in found if message is not None)
    except StorageError as error:
        raise MetadataUnreadableError(str(error)) from error
    except (ProtocolError, KafkaError) as error:
        raise MetadataUnreadableError(f"{directory}: {error}") from error


def replay(messages: Iterable[Message]) -> ClusterMetadata:
    """Return the metadata after these messages, without those of a transaction with no end."""
    metadata = ClusterMetadata()
    pending: list[Message] | None = None
    for message in messages:
        if isinstance(message, kinds.BeginTransactionRecord):
            pending = []
        elif isinstance(message, kinds.AbortTransactionRecord):
            pending = None
        elif isinstance(message, kinds.EndTransactionRecord):
            for held in pending or ():
                _apply(metadata, held)
            pending = None
        elif pending is not None:
            pending.append(message)
        else:
            _apply(metadata, message)
    return metadata


def _apply(metadata: ClusterMetadata, message: Message) -> None:
    if isinstance(message, kinds.TopicRecord):
        metadata.topics[message.topic_id] = KraftTopic(message.name, message.topic_id)
    elif isinstance(message, kinds.PartitionRecord):
        topic = _topic(metadata, message.topic_id)
        topic.leader_epochs[message.partition_id] = message.leader_epoch
        topic.in_sync[message.partition_id] = tuple(message.isr)
        topic.eligible[message.partition_id] = tuple(message.eligible_leader_replicas or ())
    elif isinstance(message, kinds.PartitionChangeRecord):
        _apply_change(_topic(metadata, message.topic_id), message)
    elif isinstance(message, kinds.RemoveTopicRecord):
        topic = _topic(metadata, message.topic_id)
        del metadata.topics[message.topic_id]
        metadata.topic_settings.pop(topic.name, None)
    elif isinstance(message, kinds.ConfigRecord):
        _apply_setting(metadata, message)
    elif isinstance(message, kinds.ProducerIdsRecord):
        metadata.next_producer_id = message.next_producer_id
    elif isinstance(message, kinds.FeatureLevelRecord):
        metadata.feature_levels[message.name] = message.feature_level
    else:
        _apply_security(metadata, message)


def _apply_change(topic: KraftTopic, message: kinds.PartitionChangeRecord) -> None:
    partition = message.partition_id
    if message.leader != kinds.NO_LEADER_CHANGE:
        topic.leader_epochs[partition] = topic.leader_epochs.get(partition, -1) + 1
    if message.isr is not None:
        topic.in_sync[partition] = tuple(message.isr)
    if message.eligible_leader_replicas is not None:
        topic.eligible[partition] = tuple(message.eligible_leader_replicas)


def _topic(metadata: ClusterMetadata, topic_id: UUID) -> KraftTopic:
    topic = metadata.topics.get(topic_id)
    if topic is None:
        raise ProtocolError(f"a record names topic id {topic_id}, which was not created before it")
    return topic


def _apply_setting(metadata: ClusterMetadata, message: kinds.ConfigRecord) -> None:
    by_name = {
        kinds.TOPIC_RESOURCE: metadata.topic_settings,
        kinds.GROUP_RESOURCE: metadata.group_settings,
    }.get(message.resource_type)
    if by_name is not None:
        settings = by_name.setdefault(message.resource_name, {})
        if message.value is None:
            settings.pop(message.name, None)
        else:
            settings[message.name] = message.value
        return
    key = (message.resource_type, message.resource_name, message.name)
    if message.value is None:
        metadata.other_settings.pop(key, None)
    else:
        metadata.other_settings[key] = message.value


def _apply_security(metadata: ClusterMetadata, message: Message) -> None:
    if isinstance(message, kinds.UserScramCredentialRecord):
        metadata.scram_credentials[message.name, message.mechanism] = ScramCredential(
            message.salt, message.stored_key, message.server_key, message.iterations
        )
    elif isinstance(message, kinds.RemoveUserScramCredentialRecord):
        metadata.scram_credentials.pop((message.name, message.mechanism), None)
    elif isinstance(message, kinds.AccessControlEntryRecord):
        metadata.acls[message.id] = message
    elif isinstance(message, kinds.RemoveAccessControlEntryRecord):
        metadata.acls.pop(message.id, None)
    elif isinstance(message, kinds.DelegationTokenRecord):
        metadata.tokens[message.token_id] = message
    elif isinstance(message, kinds.RemoveDelegationTokenRecord):
        metadata.tokens.pop(message.token_id, None)
    elif isinstance(message, kinds.ClientQuotaRecord):
        _apply_quota(metadata, message)


def _apply_quota(metadata: ClusterMetadata, message: kinds.ClientQuotaRecord) -> None:
    parts = ((part.entity_type, part.entity_name) for part in message.entity)
    entity = tuple(sorted(parts, key=itemgetter(0)))
    quotas = metadata.quotas.setdefault(entity, {})
    if message.remove:
        quotas.pop(message.quota_key, None)
    else:
        quotas[message.quota_key] = message.value
    if not quotas:
        del metadata.quotas[entity]


# ---- files


def _record_values(file_system: FileSystem, directory: str) -> Iterator[bytes]:
    files = sort_files(file_system.list(directory))
    end_offset = 0
    if files.raft_snapshots:
        newest = files.raft_snapshots[-1]
        end_offset = int(newest.partition("-")[0])
        for _, values in _batches(file_system, f"{directory}/{newest}", may_be_torn=False):
            yield from values
    # The last segment that begins at or before the snapshot's end holds what comes next.
    bases = files.base_offsets
    first = max((i for i, offset in enumerate(bases) if offset <= end_offset), default=0)
    for base_offset in bases[first:]:
        path = log_file(directory, base_offset)
        for header, values in _batches(file_system, path, may_be_torn=base_offset == bases[-1]):
            if header.next_offset <= end_offset:
                continue
            if header.base_offset != end_offset:
                raise MetadataUnreadableError(
                    f"{path} continues at offset {header.base_offset}, expected {end_offset}"
                )
            end_offset = header.next_offset
            yield from values


def _batches(
    file_system: FileSystem, path: str, *, may_be_torn: bool
) -> Iterator[tuple[BatchHeader, list[bytes]]]:
    """The batches of a file, each with the values of its records."""
    scan = SegmentScan(file_system, path, checks_crc=True)
    broken: int | None = None
    for position, header, is_intact in scan.batches():
        if not is_intact:
            broken = position
            break
        yield header, _values(header, scan.read(ScannedBatch(position, header, is_intact)))
    if scan.tail is not None:
        broken = scan.tail.position
    if broken is not None and not may_be_torn:
        raise MetadataUnreadableError(f"{path} has a broken batch at byte {broken}")


def _values(header: BatchHeader, data: bytes | memoryview) -> list[bytes]:
    if header.is_control:  # elections, snapshot header and footer
        return []
    return [record.value for record in records(data) if record.value is not None]
