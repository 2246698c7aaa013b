"""Writes data directories through LogManager and Log, and knows what must be found in them: what a
client reads, which transactions were aborted, what is remembered of each producer.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import CLEANER_OFFSET_CHECKPOINT_FILE
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.logs.log_cleaning import clean
from tests.fakes.logs.log_maker import remove_deleted_files
from tests.fakes.logs.verified_batches import verified

CLUSTER_ID = "kbrokerCompareRun00000"
BROKER_ID = 1
CREATE_TIME, LOG_APPEND_TIME, NO_TIME = 1, 2, 0  # as librdkafka numbers them

SMALL: dict[str, Any] = {
    "segment_bytes": 2000,
    "index_interval_bytes": 200,
    "segment_index_bytes": 4096,
}
COMPACTED = SMALL | {"cleanup_policy": ("compact",)}
Settings = dict[str, dict[str, Any]]  # of a TopicConfig, by topic
SETTINGS: Settings = {
    "append-time": SMALL | {"message_timestamp_type": "LogAppendTime"},
    "big": {"max_message_bytes": 2_000_000},
    "gaps": COMPACTED,
    **dict.fromkeys(
        ("compacted-none", "compacted-zstd", "compacted-txn", "compacted-v1"), COMPACTED
    ),
    "preallocated": SMALL | {"preallocate": True},
    "recode": SMALL | {"compression_type": "zstd"},
    "__consumer_offsets": COMPACTED,
}


class Row(NamedTuple):
    """A record as a client sees it."""

    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Rows = dict[TopicPartition, list[Row]]


class WallClock:
    """The time at which the writer was made: brokers throw away what is too old."""

    def __init__(self) -> None:
        self.ms = int(time.time() * 1000) - 3_600_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> float:
        return 0.0


class KnownProducer(NamedTuple):
    """What a log remembers of an idempotent producer; -1 where there is nothing."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    coordinator_epoch: int
    open_txn: int  # first offset of its transaction


class DirectoryWriter:
    """Writes. Each append is a second later than the one before.

    `rows` is what was written, `hidden` the offsets that read_committed does not show, `aborted`
    the entries of the transaction indexes, `producers` what is remembered of each producer.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = WallClock()
        self.rows: Rows = {}
        self.hidden: dict[TopicPartition, set[int]] = {}
        self.aborted: dict[TopicPartition, list[AbortedTxn]] = {}
        self.producers: dict[TopicPartition, dict[int, KnownProducer]] = {}
        self.settings: Settings = {topic: dict(values) for topic, values in SETTINGS.items()}
        self.logs = open_logs(root, self.clock, self.settings)
        self._open: dict[tuple[TopicPartition, int], set[int]] = {}

    def log(self, topic: str, partition: int = 0) -> Log:
        place = TopicPartition(topic, partition)
        topic_id = UUID(bytes=hashlib.sha256(topic.encode()).digest()[:16])
        self.rows.setdefault(place, [])
        self.hidden.setdefault(place, set())
        self.aborted.setdefault(place, [])
        self.producers.setdefault(place, {})
        return self.logs.get_or_create_log(place, topic_id)

    def append(
        self,
        topic: str,
        records: Sequence[Record],
        epoch: int = 0,
        partition: int = 0,
        **options: Any,
    ) -> None:
        """Append one batch as a producer sends it; `options` are those of the batch."""
        log = self.log(topic, partition)
        data = bytearray(build(records, options=BatchOptions(**options)))
        now_ms = self.clock.ms = self.clock.ms + 1000
        appended = log.append_as_leader(verified(log, data), epoch, now_ms)
        log.update_high_watermark(log.log_end_offset)
        stamped = log.config.message_timestamp_type == "LogAppendTime"
        kind, stamp = (LOG_APPEND_TIME, now_ms) if stamped else (CREATE_TIME, None)
        self.note_rows(log, records, appended.first_offset, (kind, stamp))
        if "producer_id" in options:
            offsets = set(range(appended.first_offset, appended.last_offset + 1))
            self._note_producer(log.topic_partition, offsets, BatchOptions(**options))

    def append_at(self, topic: str, records: Sequence[Record], data: bytes, magic: int) -> None:
        """Append bytes whose offsets are those of `records`, as a follower does."""
        log = self.log(topic)
        log.append_as_follower(data)
        log.update_high_watermark(log.log_end_offset)
        self.note_rows(log, records, 0, (CREATE_TIME, None) if magic else (NO_TIME, -1))

    def set(self, topic: str, **settings: Any) -> None:
        """Change settings of a topic."""
        self.settings[topic] = self.settings.get(topic, SMALL) | settings
        self.logs.update_topic_config(topic, topic_config(topic, self.settings))

    def end_transaction(
        self, topic: str, producer_id: int, *, commit: bool, epoch: int = 0
    ) -> None:
        """Append the marker of the transaction that this producer has open."""
        log = self.log(topic)
        place = log.topic_partition
        options = BatchOptions(producer_id=producer_id, producer_epoch=0)
        now_ms = self.clock.ms = self.clock.ms + 1000
        marker = bytearray(build_marker(ControlRecord(commit, 0), now_ms, options=options))
        origin = AppendOrigin.COORDINATOR
        at = log.append_as_leader(marker, epoch, now_ms, origin=origin).first_offset
        log.update_high_watermark(log.log_end_offset)
        offsets = self._open.pop((place, producer_id))
        known = self.producers[place][producer_id]
        self.producers[place][producer_id] = known._replace(coordinator_epoch=0, open_txn=-1)
        if not commit:
            still_open = (min(other) for (at, _), other in self._open.items() if at == place)
            stable = min(still_open, default=at + 1)
            self.hidden[place] |= offsets
            self.aborted[place].append(AbortedTxn(producer_id, min(offsets), at, stable))

    def compact(self, topic: str) -> None:
        """Clean a log once: of every key in its closed segments the last record stays."""
        log = self.log(topic)
        place = log.topic_partition
        log.flush()
        end_offset = clean(log, self.clock.ms).end_offset
        remove_deleted_files(log, self.clock.ms + log.config.file_delete_delay_ms)
        hidden = self.hidden[place]
        cleaned = [r for r in self.rows[place] if r.offset < end_offset and r.offset not in hidden]
        last = {row.key: row.offset for row in cleaned}
        beyond = [row for row in self.rows[place] if row.offset >= end_offset]
        self.rows[place] = [row for row in cleaned if last[row.key] == row.offset] + beyond

    def records(self, count: int, text: str = "value", first_offset: int = 0) -> list[Record]:
        """Records with keys, some with headers, a millisecond apart."""
        return [
            Record(
                first_offset + index,
                self.clock.ms + index,
                b"key-%d" % (index % 3),
                f"{text}-{index}-".encode() * 4,
                (("h", b"%d" % index), ("empty", b""), ("null", None)) if index % 4 == 0 else (),
            )
            for index in range(count)
        ]

    def committed_rows(self, place: TopicPartition) -> list[Row]:
        """Return the rows that read_committed shows."""
        log = self.logs.get_log(place)
        assert log is not None
        bound = log.last_stable_offset
        hidden = self.hidden[place]
        return [row for row in self.rows[place] if row.offset < bound and row.offset not in hidden]

    def close(self) -> None:
        """Stop cleanly, as the broker does."""
        self.checkpoint()
        self.logs.shutdown()

    def checkpoint(self) -> None:
        """Write down what a running broker writes down from time to time."""
        logs = self.logs.all_logs()
        self.logs.write_high_watermarks({log.topic_partition: log.high_watermark for log in logs})
        self.logs.checkpoint_recovery_points()
        self.logs.checkpoint_log_start_offsets()
        cleaned = {log.topic_partition: log.cleaned_end_offset or 0 for log in logs}
        self.logs.directories()[0].write_offsets(
            CLEANER_OFFSET_CHECKPOINT_FILE, {place: end for place, end in cleaned.items() if end}
        )

    def _note_producer(
        self, place: TopicPartition, offsets: set[int], options: BatchOptions
    ) -> None:
        producer_id = options.producer_id
        if options.flags & TRANSACTIONAL_BIT:
            self._open.setdefault((place, producer_id), set()).update(offsets)
        before = self.producers[place].get(producer_id)
        self.producers[place][producer_id] = KnownProducer(
            producer_id,
            options.producer_epoch,
            options.base_sequence + len(offsets) - 1,
            max(offsets),
            before.coordinator_epoch if before else -1,
            min(self._open.get((place, producer_id), {-1})),
        )

    def note_rows(
        self, log: Log, records: Iterable[Record], base: int, stamp: tuple[int, int | None]
    ) -> None:
        """Remember records written at their offsets and `base`; `stamp` is kind of time and, where
        it is not that of the record, the time.
        """
        kind, time_ms = stamp
        self.rows[log.topic_partition] += [
            Row(
                base + record.offset,
                kind,
                record.timestamp if time_ms is None else time_ms,
                record.key,
                record.value,
                record.headers,
            )
            for record in records
        ]


def open_logs(root: Path, clock: WallClock, settings: Settings = SETTINGS) -> LogManager:
    """All logs of a data directory, with the settings that its topics have here."""
    config_of = partial(topic_config, settings=settings)
    directories = LogDirectories.lock(RealFileSystem(), [str(root)])
    logs = LogManager(
        directories,
        LogConfig,
        config_of,
        RealFileSystem(),
        clock,
    )
    meta = directories.meta
    if meta is None or meta.cluster_id is None or meta.broker_id is None:
        logs.load(CLUSTER_ID, BROKER_ID)
    else:
        logs.load(meta.cluster_id, meta.broker_id)
    for log in logs.all_logs():
        log.update_high_watermark(log.log_end_offset)
    return logs


def topic_config(topic: str, settings: Settings = SETTINGS) -> TopicConfig:
    """The settings of a topic of the writer's."""
    return TopicConfig(**settings.get(topic, SMALL))


def overrides(
    topics: Iterable[str], *, without: Iterable[str] = (), settings: Settings = SETTINGS
) -> dict[str, dict[str, str]]:
    """The same in Kafka's words."""
    return {
        topic: {
            name.replace("_", "."): _text(value)
            for name, value in settings.get(topic, SMALL).items()
            if name not in without
        }
        for topic in topics
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
