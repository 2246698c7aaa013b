"""GroupRecords: reads topics as a member of a consumer group, with the client library.

Law: a member commits offsets only for partitions that it holds, because another holder may be
further on; so it commits before others take them over. A member that follows also commits now and
then, because it may be killed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.errors import KafkaError as LibraryError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as LibraryPartition

from kbroker.client.bootstrap import cannot_connect
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import check_coordinator_partition
from kbroker.client.fetched_batches import records_of
from kbroker.client.library_consumer import MemberParts, library_consumer
from kbroker.client.next_batches import next_batches
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

_JOIN_MS = 30_000
_HANDOVER_MS = 3_000
_COMMIT_S = 5.0  # Kafka's default of auto.commit.interval.ms
_POLL_MS = 1_000
_LOOK_MS = 2_000
_PATIENCE_S = 10.0  # without --follow
_CANNOT_READ = (CorruptRecordError, UnsupportedCodecError)

Batches = Iterator[tuple[TopicPartition, list[Record]]]


COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class Habits:
    """How a member reads: `begins_at_end` if the group has no offset, else at the start; and
    Kafka's `isolation.level`.
    """

    begins_at_end: bool = False
    isolation: str = COMMITTED


class GroupRecords:
    """One member of a group; owned by one thread."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        tell: Callable[[str], None],
        habits: Habits,
        tell_unreadable: Callable[[str], None],
    ) -> None:
        """`tell` gets a sentence when brokers or a topic go away or come back, and when records are
        gone that the group has not read; `tell_unreadable` gets one for each unreadable batch.
        """
        self._tell_unreadable = tell_unreadable
        self._only_committed = habits.isolation == COMMITTED
        self._links = ClusterLinks(bootstrap)
        self._group = group
        self._topics = topics
        self._tell = tell
        self._away_since_s: float | None = None
        self._assigned: set[LibraryPartition] = set()  # at the last look for gaps
        self._there: set[str] = set()  # topics that the cluster had
        self._deleted: set[str] = set()
        self._behind: dict[TopicPartition, int] = {}  # how far `batches` has come
        self._commits_at_s = time.monotonic() + _COMMIT_S
        options: dict[str, Any] = {
            "client_id": "kbroker-cli",
            "group_id": group,
            "auto_offset_reset": "latest" if habits.begins_at_end else "earliest",
            "isolation_level": habits.isolation,
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
            "bootstrap_timeout_ms": 5_000,
        }
        self._consumer = library_consumer(bootstrap, **options)
        self._parts = MemberParts(self._consumer)

    def batches(self, *, follow: bool) -> Batches:
        """Yield records as they come; without `follow`, until every partition has reached the end
        it had at first. Then also raises ClientError if the brokers stay away or a topic is
        deleted.
        """
        consumer = self._consumer
        consumer.subscribe(self._topics, listener=_Handover(self._hand_over, self._behind.clear))
        ends: dict[Any, int] = {}
        while True:
            if follow:
                self._commit_when_due()
            if not consumer.assignment():
                self._wait_for_coordinator(follow=follow)
                self._parts.join(_JOIN_MS)
            assigned = consumer.assignment()
            self._look_for_gaps(assigned)
            if assigned and not follow:
                ends = ends or consumer.end_offsets(list(assigned))
                if all(consumer.position(place) >= ends.get(place, 0) for place in assigned):
                    return
            try:
                found = self._poll(follow=follow)
            except _CANNOT_READ as error:
                yield from self._read_past(error)
                continue
            self._look_at_topics(follow=follow)
            if not found:
                self._look(follow=follow)
            for place, batch in found.items():
                records = [
                    Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch
                ]
                given = TopicPartition(place.topic, place.partition)
                self._behind[given] = records[-1].offset + 1
                yield given, records

    def _read_past(self, error: Exception) -> Batches:
        """Read one batch of each partition that the member holds with the project's own reader,
        because the library says neither what it cannot read nor where. It also reads what is not
        UTF-8.
        """
        consumer = self._consumer
        places = {TopicPartition(p.topic, p.partition): p for p in consumer.assignment()}
        positions = {place: consumer.position(held) for place, held in places.items()}
        found = next_batches(self._links, positions, only_committed=self._only_committed)
        if not found:
            raise error
        for batch in found:
            self._behind[batch.place] = batch.header.next_offset
            consumer.seek(places[batch.place], batch.header.next_offset)
        yield from records_of(found, self._tell_unreadable)

    def _poll(self, *, follow: bool) -> Mapping[LibraryPartition, Sequence[Any]]:
        """Return the records that came; none if it follows, and the library gave the brokers up."""
        try:
            found: dict[LibraryPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=_POLL_MS)
        except _CANNOT_READ:
            raise
        except LibraryError as error:
            if not follow or not error.retriable:
                raise
            return {}
        return found

    def _commit_when_due(self) -> None:
        """Commit what was yielded, which its reader has finished with between polls. A commit that
        fails is made up for by the next. None is made without a coordinator: the library would
        send it once there is one, and the member may hold other partitions by then.
        """
        now_s = time.monotonic()
        if now_s < self._commits_at_s or not self._parts.has_coordinator:
            return
        self._commits_at_s = now_s + _COMMIT_S
        if self._behind:
            self._consumer.commit_async(_commits(self._behind), callback=lambda *_: None)

    def _look_for_gaps(self, assigned: set[LibraryPartition]) -> None:
        """Say in which new partitions the group's offset is before the first record."""
        came, self._assigned = sorted(assigned - self._assigned), assigned
        if not came:
            return
        with suppress(LibraryError):  # a broker is away, which the other looks report
            starts = self._consumer.beginning_offsets(came, timeout_ms=_LOOK_MS)
            for place in came:
                committed = self._consumer.committed(place, timeout_ms=_LOOK_MS)
                if committed is not None and committed < starts[place]:
                    self._tell(
                        f"offset {committed} of {place.topic}-{place.partition}, where the group "
                        f"is, is no longer there: its records begin at {starts[place]}"
                    )

    def _wait_for_coordinator(self, *, follow: bool) -> None:
        """Wait until the group can have a coordinator: the library retries without a word."""
        since_s = None
        while True:
            try:
                check_coordinator_partition(self._links, self._group)
            except ClientError as error:
                if since_s is None:
                    since_s = time.monotonic()
                    self._tell(f"{error.sentence}; waiting")
                elif not follow and time.monotonic() - since_s > _PATIENCE_S:
                    raise
                time.sleep(_POLL_MS / 1000)
                continue
            except OSError:
                return  # which the other look reports
            if since_s is not None:
                self._tell(f"group {self._group} has a coordinator again")
            return

    def _look(self, *, follow: bool) -> None:
        """Say whether a broker answers: the library retries for ever, without a word."""
        bootstrap = self._links.bootstrap
        try:
            self._links.describe([])
        except OSError as error:
            now_s = time.monotonic()
            if self._away_since_s is None:
                self._away_since_s = now_s
                self._tell(f"no broker of {bootstrap} answers; waiting")
            if not follow and now_s - self._away_since_s > _PATIENCE_S:
                raise cannot_connect(bootstrap, error.strerror or str(error)) from error
            time.sleep(_POLL_MS / 1000)
            return
        if self._away_since_s is not None:
            self._away_since_s = None
            self._tell(f"a broker of {bootstrap} answers again")

    def _look_at_topics(self, *, follow: bool) -> None:
        """Find deleted topics by what the library knows, as it does not report them."""
        there = self._parts.known_topics(self._topics)
        for topic in sorted(self._there - there - self._deleted):
            reason = f"the topic {topic} was deleted"
            if not follow:
                raise ClientError(reason)
            self._tell(f"{reason}; waiting")
            self._deleted.add(topic)
        for topic in sorted(self._deleted & there):
            self._tell(f"{topic} can be read again")
        self._deleted -= there
        self._there |= there

    def leave(self, next_offsets: Mapping[TopicPartition, int] | None) -> None:
        """Commit these offsets (None: of all that `batches` yielded), and leave the group."""
        offsets = None
        if next_offsets is not None:
            offsets = _commits(
                {place: next_offsets[place] for place in self._behind if place in next_offsets}
            )
        if self._away_since_s is None:  # else it would wait for a broker to take them
            self._consumer.commit(offsets)
        self._behind.clear()  # closing is a handover too
        self._consumer.close()
        self._links.close()

    async def _hand_over(self, places: Iterable[TopicPartition]) -> None:
        """Commit what was yielded of partitions that others may get. This runs within a poll, when
        the reader has finished with all of it; if it fails, the others read some records again.
        """
        offsets = {place: self._behind.pop(place) for place in places if place in self._behind}
        if offsets:
            with suppress(LibraryError):  # which would end the poll
                await self._parts.commit(_commits(offsets), _HANDOVER_MS)


class _Handover(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Reports which partitions go; for lost ones it is too late to commit."""

    def __init__(
        self,
        hand_over: Callable[[list[TopicPartition]], Awaitable[None]],
        forget: Callable[[], None],
    ) -> None:
        self._hand_over, self._forget = hand_over, forget

    async def on_partitions_revoked(self, revoked: Iterable[LibraryPartition]) -> None:
        await self._hand_over([TopicPartition(p.topic, p.partition) for p in revoked])

    async def on_partitions_lost(self, lost: Iterable[LibraryPartition]) -> None:
        self._forget()  # a member loses all or none

    async def on_partitions_assigned(self, assigned: Iterable[LibraryPartition]) -> None:
        """Read on from where the group is."""


def _commits(offsets: Mapping[TopicPartition, int]) -> dict[LibraryPartition, OffsetAndMetadata]:
    return {
        LibraryPartition(place.topic, place.partition): OffsetAndMetadata(offset, "", -1)
        for place, offset in offsets.items()
    }
