"""Committing, reading, expiring and deleting the offsets of groups.

Law: a commit is acknowledged after its records are in the log, because the next coordinator knows
only those (KIP-98 for pending ones, KIP-211 for expiry, KIP-447 for stable reads, KIP-496 for
subscribed topics). All offsets of one request are one batch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from kbroker.coordinator.group.coordinated_group import (
    FIRST_VERSION_WITH_EPOCHS,
    Committer,
    CoordinatedGroup,
    Offsets,
)
from kbroker.coordinator.group.offsets import (
    NOTHING_COMMITTED,
    CommittedOffset,
    FetchedOffset,
    GroupOffsets,
)
from kbroker.coordinator.group.records import (
    MAX_NAME_BYTES,
    fits_a_record,
    offset_commit_key,
    offset_commit_value,
)
from kbroker.coordinator.group.store import GroupShard, GroupStore
from kbroker.coordinator.offsets.gone_partitions import GonePartitions
from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.coordinator.runtime.batch_append import OFFSET_BATCH
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.coordinator.runtime.shard import ReplayedPart, Settled
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError
from kbroker.features import GROUP_VERSION
from kbroker.model import ZERO_UUID, TopicPartition, new_tuple
from kbroker.record.record_batch import HEADER_SIZE, TRANSACTIONAL_BIT, BatchOptions
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.slices import slices

_NONE_GONE: frozenset[TopicPartition] = frozenset()
_PART = 500  # tombstones, two milliseconds
_COMMIT_ERRORS = append_errors(too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
Codes = dict[TopicPartition, ErrorCode]


class OffsetCommits:
    """The offsets of all groups of a store."""

    def __init__(self, store: GroupStore, metadata: MetadataCache) -> None:
        self._store = store
        self._metadata = metadata
        self._topic_id = metadata.topic_id
        config = store.config
        self._metadata_max_bytes = min(config.offset_metadata_max_bytes, MAX_NAME_BYTES)
        self._retention_ms = config.offsets_retention_minutes * 60_000
        # A member that was there until a load is missed when its session ends.
        self._doubt_ms = self._retention_ms + config.group_max_session_timeout_ms
        self._gone = GonePartitions()
        self._is_forgetting = False  # what is gone

    # ---- commit

    def commit(
        self, committer: Committer, offsets: Offsets
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Store offsets, of each partition one; a code for each, in their order.

        A plain list when nothing has to be waited for.
        """
        if not offsets:
            return []  # no group is made, and none kept alive, for nothing
        coordinated: CoordinatedGroup | None = self._store.find(committer.group_id)
        if coordinated is None:
            error = self._store.runtime.status(committer.group_id)
            if not fits_a_record(committer.group_id):
                error = ErrorCode.UNKNOWN_SERVER_ERROR
            if error is NO_ERROR and committer.generation_id >= 0:
                error = _no_group(committer)
            if error is not NO_ERROR:
                return [error] * len(offsets)
            coordinated = self._store.create(committer.group_id)
        error = coordinated.commit_error(committer, offsets, self._store.runtime.monotonic_ms())
        if error is not NO_ERROR:
            return [error] * len(offsets)
        return self._append(coordinated, offsets)

    def commit_in_transaction(
        self, committer: Committer, producer: Producer, offsets: Offsets
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Commit offsets that count once the producer's transaction is committed."""
        if not offsets:
            return []
        error = self.transactional_status(committer.group_id)
        coordinated: CoordinatedGroup | None = self._store.find(committer.group_id)
        if error is NO_ERROR and coordinated is None and committer.generation_id >= 0:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not NO_ERROR:
            return [error] * len(offsets)
        if coordinated is None:
            coordinated = self._store.create(committer.group_id)
        error = coordinated.transactional_commit_error(committer, offsets)
        if error is not NO_ERROR:
            self._store.drop_if_untouched(committer.group_id)
            return [error] * len(offsets)
        return self._append(coordinated, offsets, producer)

    def transactional_status(self, group_id: str) -> ErrorCode:
        """Return NONE if this broker keeps what a transaction commits for the group."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not fits_a_record(group_id):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return self._store.runtime.status(group_id)

    def _append(
        self, coordinated: CoordinatedGroup, offsets: Offsets, producer: Producer | None = None
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Append those whose metadata is not too long, in the transaction of `producer`."""
        group_id, home, kept = coordinated.group_id, coordinated.home, coordinated.offsets
        producer_id = None if producer is None else producer.producer_id
        # Whether all brokers read records with ids; looked up here, as a commit pays for each call.
        has_topic_ids = self._metadata.finalized_features.levels.get(GROUP_VERSION, 0) >= 1
        # What a transaction commits has none in Kafka.
        topic_id = self._topic_id if has_topic_ids and producer is None else None
        codes: list[ErrorCode] = []
        accepted: list[tuple[TopicPartition, CommittedOffset]] = []
        for entry in offsets:
            (topic, _), value = entry
            if value.metadata and self._is_too_large(value.metadata):
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            codes.append(NO_ERROR)
            accepted.append(entry)
            if topic_id is not None:
                value.topic_id = topic_id(topic)
        if not accepted:
            self._store.drop_if_untouched(group_id)
            return codes

        def replay(log_offset: int) -> None:
            for partition, value in accepted:
                value.log_offset = log_offset
                kept.replay(partition, value, producer_id)

        records = _commit_records(group_id, accepted, home.max_batch_bytes, has_topic_ids)
        if records is None:
            return self._settled(group_id, codes, ErrorCode.MESSAGE_TOO_LARGE)
        options = OFFSET_BATCH if producer is None else _taking_part(home, group_id, producer)
        error = home.write_or_wait(
            records,
            replay,
            lambda error: reply.answer(self._settled(group_id, codes, error)),
            options,
        )
        if error is NO_ERROR:
            return codes  # the group has these offsets at least, and stays
        if error is not None:
            return self._settled(group_id, codes, error)
        reply: PendingReply[list[ErrorCode]] = PendingReply()
        return reply.outcome()

    def _is_too_large(self, metadata: str) -> bool:
        return len(metadata) > self._metadata_max_bytes or not fits_a_record(metadata)

    def _settled(self, group_id: str, codes: list[ErrorCode], error: ErrorCode) -> list[ErrorCode]:
        """The codes of a commit, of which those accepted came to `error`."""
        self._store.drop_if_untouched(group_id)
        if error is NO_ERROR:
            return codes
        error = _COMMIT_ERRORS.get(error, error)
        return [code or error for code in codes]

    # ---- fetch

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        require_stable: bool,
        by_id: bool = False,
    ) -> list[tuple[TopicPartition, FetchedOffset]]:
        """Return the committed offsets of these partitions, or of all (None). `by_id`: of topics
        that have these names now, and not of those that had them before.

        Raises KafkaError if this broker does not know.
        """
        coordinated = self._coordinated(group_id)
        if coordinated is None:
            return [(partition, NOTHING_COMMITTED) for partition in partitions or ()]
        offsets, gone = coordinated.offsets, self._gone_of(coordinated)
        if partitions is None:
            partitions = [each for each in offsets.committed.stored_keys() if each not in gone]
        topic_id = self._topic_id if by_id else _any_topic
        return [
            (
                each,
                NOTHING_COMMITTED
                if each in gone
                else offsets.fetch(each, require_stable, topic_id(each.topic)),
            )
            for each in partitions
        ]

    def check_reader(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError for a member of a consumer group in another epoch, or an unknown one."""
        coordinated = self._store.find(group_id)
        if coordinated is not None:
            error = coordinated.fetch_error(member_id, epoch)
            if error is not NO_ERROR:
                raise KafkaError(error)

    def stored(self, group_id: str) -> list[TopicPartition]:
        """The partitions of which a group has offsets. Raises KafkaError as `fetch`."""
        coordinated = self._coordinated(group_id)
        if coordinated is None:
            return []
        gone = self._gone_of(coordinated)
        stored = coordinated.offsets.committed.stored_keys()
        return [each for each in stored if each not in gone] if gone else stored

    def count(self, group_id: str) -> int:
        """How many offsets a group has, about."""
        coordinated = self._store.find(group_id)
        return 0 if coordinated is None else len(coordinated.offsets.committed)

    def _coordinated(self, group_id: str) -> CoordinatedGroup | None:
        """Return a group to read offsets of. Raises KafkaError if this broker does not know it."""
        coordinated = self._store.find(group_id)
        if coordinated is None:
            error = self._store.runtime.status(group_id)
            if error is not NO_ERROR:
                raise KafkaError(error)
        return coordinated

    def _gone_of(self, coordinated: CoordinatedGroup) -> frozenset[TopicPartition]:
        """Return the partitions that are gone, whose offsets nobody is to see any more."""
        coordinated.home.catch_up()
        if not self._gone:
            return _NONE_GONE
        return frozenset(self._gone.of(coordinated.home, coordinated.offsets))

    # ---- remove

    def delete_group(self, group_id: str) -> ErrorCode | Awaitable[ErrorCode]:
        """Forget an empty group and its offsets; a plain code if the log takes that at once."""
        coordinated = self._store.find(group_id)
        if coordinated is None:
            error = self._store.runtime.status(group_id)
            return ErrorCode.GROUP_ID_NOT_FOUND if error is NO_ERROR else error
        if not coordinated.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        coordinated.home.catch_up()
        offsets = coordinated.offsets
        doomed = offsets.partitions()
        if not doomed and not offsets.are_stored:  # their end is on its way
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        reply: PendingReply[ErrorCode] = PendingReply()

        def buried(error: ErrorCode) -> None:
            reply.answer(_COMMIT_ERRORS.get(error, error))

        self._bury(coordinated, sorted(doomed), buried)
        return reply.outcome()

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Codes | Awaitable[Codes]:
        """Forget the offsets of these partitions; plain codes if the log takes that at once.

        A live group of consumers keeps those of topics it follows. Raises KafkaError
        GROUP_ID_NOT_FOUND, and NON_EMPTY_GROUP for a live group of another kind.
        """
        coordinated = self._store.find(group_id)
        if coordinated is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not coordinated.may_lose_offsets:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        codes = dict.fromkeys(partitions, NO_ERROR)
        if not coordinated.is_empty:
            for partition in codes:
                if coordinated.follows(partition.topic):
                    codes[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        doomed = [partition for partition, code in codes.items() if code is NO_ERROR]
        reply: PendingReply[Codes] = PendingReply()

        def settled(error: ErrorCode) -> None:
            reply.answer(codes | dict.fromkeys(doomed, _COMMIT_ERRORS.get(error, error)))

        self._forget(coordinated, doomed, settled)
        return reply.outcome()

    def expire(self) -> Iterator[None]:
        """Forget offsets that have outlived their retention, and groups that have nothing left.

        Yields after each group, and each part of one with very many offsets.
        """
        now_ms = self._store.runtime.now().wall_ms
        for coordinated in self._store:
            doomed = coordinated.expired(now_ms, self._retention_ms)
            for part in _parts(doomed):
                # A group may have been forgotten since the first step, and an offset committed.
                is_here = self._store.find(coordinated.group_id) is coordinated
                if is_here and self._may_forget(coordinated):
                    coordinated.home.catch_up()
                    left = coordinated.expired(now_ms, self._retention_ms, part)
                    self._clean_up(coordinated, left)
                yield

    def _may_forget(self, coordinated: CoordinatedGroup) -> bool:
        home = coordinated.home.topic_partition
        return self._store.runtime.may_forget(home, self._doubt_ms)

    def partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the offsets of partitions that no longer exist. Where very many groups have some,
        others run in between; who reads one before its turn does not find it. What is committed
        from now on is of another topic of the same name, and stays.
        """
        self._gone.add(partitions, self._store.ends())
        if not self._is_forgetting:
            self._is_forgetting = True
            self._store.runtime.run_sliced(self._forget_gone(), "offsets of deleted topics")

    def _forget_gone(self) -> Iterator[None]:
        try:
            while self._gone:
                known = self._gone.known()
                for coordinated in self._store:
                    yield from self._forget_gone_of(coordinated)
                    yield
                self._gone.forget(known)
        finally:
            self._is_forgetting = False

    def _forget_gone_of(self, coordinated: CoordinatedGroup) -> Iterator[None]:
        offsets = coordinated.offsets
        doomed = self._gone.of(coordinated.home, offsets)
        for part in slices(doomed, _PART):
            if self._store.find(coordinated.group_id) is not coordinated:
                return
            # One may have been committed again since the first was found.
            self._forget(coordinated, self._gone.still(coordinated.home, offsets, part))
            if len(part) == _PART:
                yield

    def _forget(
        self,
        coordinated: CoordinatedGroup,
        doomed: Iterable[TopicPartition],
        settled: Settled = lambda _: None,
    ) -> None:
        """Forget offsets, those on their way in transactions too."""
        recorded = coordinated.offsets.recorded(doomed)
        if not recorded:
            settled(NO_ERROR)
        elif coordinated.outlives_its_offsets:
            self._write_off(coordinated, recorded, settled)
        else:
            self._clean_up(coordinated, recorded, settled)

    def _clean_up(
        self,
        coordinated: CoordinatedGroup,
        doomed: list[TopicPartition],
        settled: Settled = lambda _: None,
    ) -> None:
        """Forget these offsets, and the group if it has nothing left."""
        offsets = coordinated.offsets
        has_nothing = not (
            offsets.has_more_than(len(doomed)) or not offsets.are_stored or coordinated.is_expected
        )
        if coordinated.is_empty and has_nothing and self._may_forget(coordinated):
            self._bury(coordinated, doomed, settled)
        elif doomed:
            self._write_off(coordinated, doomed, settled)

    def _write_off(
        self, coordinated: CoordinatedGroup, doomed: list[TopicPartition], settled: Settled
    ) -> None:
        tombstones = _offset_tombstones(coordinated.group_id, doomed)
        removal = _removal(coordinated.offsets, doomed)
        self._store.write_tombstones(coordinated, tombstones, removal, settled)

    def _bury(
        self,
        coordinated: CoordinatedGroup,
        doomed: list[TopicPartition],
        buried: Settled = lambda _: None,
    ) -> None:
        """Forget a group and its last offsets once the log says that it is gone. If the log refuses
        it, the group stays: the next load would bring it back.
        """
        group_id, last_version = coordinated.group_id, coordinated.version

        def written(error: ErrorCode) -> None:
            # Members who came while this was on its way, be they gone again, have later records.
            is_over = coordinated.is_empty and coordinated.version == last_version
            if error is NO_ERROR and is_over and self._store.find(group_id) is coordinated:
                self._store.bury(coordinated)
            buried(error)

        ending = coordinated.ending()
        tombstones = [*_offset_tombstones(group_id, doomed), *ending.records]
        removal = _removal(coordinated.offsets, doomed, ending.replay)
        self._store.write_tombstones(coordinated, tombstones, removal, written)


def _any_topic(_name: str) -> UUID:
    return ZERO_UUID


def _taking_part(home: GroupShard, group_id: str, producer: Producer) -> BatchOptions:
    """Note that a group has offsets in a transaction; return how their batch is written."""
    assert home.machine is not None
    home.machine.takes_part(group_id, producer.producer_id)
    return replace(
        OFFSET_BATCH,
        flags=TRANSACTIONAL_BIT,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )


def _no_group(committer: Committer) -> ErrorCode:
    """Why a member cannot commit offsets of a group that is not there, as clients understand it."""
    knows_missing_groups = committer.api_version >= FIRST_VERSION_WITH_EPOCHS
    return ErrorCode.GROUP_ID_NOT_FOUND if knows_missing_groups else ErrorCode.ILLEGAL_GENERATION


def _commit_records(
    group_id: str, offsets: Offsets, max_bytes: int, with_topic_ids: bool
) -> list[KeyValue] | None:
    """Return the records of a commit, None if no batch can hold them."""
    records: list[KeyValue] = []
    least_bytes = HEADER_SIZE
    for (topic, partition), committed in offsets:
        key = offset_commit_key(group_id, topic, partition)
        value = offset_commit_value(committed, with_topic_id=with_topic_ids)
        least_bytes += len(key) + len(value)
        if least_bytes > max_bytes:
            return None
        records.append(new_tuple(KeyValue, (key, value)))
    return records


def _removal(
    offsets: GroupOffsets,
    doomed: Sequence[TopicPartition],
    rest: ReplayedPart = lambda _part: None,
) -> ReplayedPart:
    """Return the replay of their tombstones, after which come those of a group's end, `rest`."""
    count = len(doomed)

    def replay(part: slice) -> None:
        for partition in doomed[part]:
            offsets.replay(partition, None, None)
        rest(slice(max(0, part.start - count), max(0, part.stop - count)))

    return replay


def _offset_tombstones(group_id: str, removed: Iterable[TopicPartition]) -> list[KeyValue]:
    return [
        KeyValue(offset_commit_key(group_id, topic, partition), None)
        for topic, partition in removed
    ]


def _parts(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Split into parts of one batch each; at least one, which may be empty."""
    for start in range(0, len(partitions) or 1, _PART):
        yield partitions[start : start + _PART]
