"""Topics whose settings change at random moments while they are written, cleaned and cut, and an end
of it in the middle.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kbroker.log.cleaner.cleanable_log import first_dirty_offset, log_to_clean
from kbroker.record.compression import CODEC_IDS
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchOptions, build
from tests.integration.directory_writer import SMALL, DirectoryWriter

TOPICS = tuple(f"changing-{number}" for number in range(12))
_STEPS = 60
_CHANGES: dict[str, tuple[Any, ...]] = {
    "cleanup_policy": (("compact",), ("compact",), ("delete",), ("compact", "delete")),
    "segment_bytes": (1200, 2000, 5000),
    "index_interval_bytes": (100, 200, 800),
    "compression_type": ("producer", "producer", "gzip", "lz4", "uncompressed"),
    "retention_bytes": (-1, 1_000_000),
    "message_timestamp_type": ("CreateTime", "CreateTime", "LogAppendTime"),
}


def write_changing(writer: DirectoryWriter, draw: Random) -> None:
    """Fill all of them."""
    for topic in TOPICS:
        _ChangingTopic(writer, topic, draw).write()


class _ChangingTopic:
    """One of them; its last settings stay in the writer's."""

    def __init__(self, writer: DirectoryWriter, topic: str, draw: Random) -> None:
        self._writer = writer
        self._topic = topic
        self._draw = draw
        self._epoch = 0
        self._sequence = 0
        self._is_open = False
        writer.settings[topic] = dict(SMALL)

    def write(self) -> None:
        steps = {
            self._produce: 10,
            self._produce_in_transaction: 4,
            self._follow: 3,
            self._change: 4,
            self._clean: 3,
            self._roll: 1,
            self._elect: 1,
            self._writer.checkpoint: 1,
        }
        for _ in range(_STEPS):
            self._draw.choices(list(steps), list(steps.values()))[0]()

    def _produce(self) -> None:
        codec = CODEC_IDS[self._draw.choice(("uncompressed", "uncompressed", "gzip", "zstd"))]
        self._append(compression=codec)

    def _produce_in_transaction(self) -> None:
        if self._is_open and self._draw.random() < 0.5:
            commit = self._draw.random() < 0.6
            self._writer.end_transaction(self._topic, 41, commit=commit, epoch=self._epoch)
            self._is_open = False
            return
        options = {"producer_id": 41, "producer_epoch": 0, "base_sequence": self._sequence}
        self._sequence += self._append(flags=TRANSACTIONAL_BIT, **options)
        self._is_open = True

    def _append(self, **options: Any) -> int:
        records = self._writer.records(self._draw.randint(1, 5), str(self._draw.randrange(99)))
        for index in range(len(records)):
            if self._draw.random() < 0.2:
                key = b"once-%d" % self._draw.randrange(10**6)
                records[index] = records[index]._replace(key=key)
        self._writer.append(self._topic, records, epoch=self._epoch, **options)
        return len(records)

    def _follow(self) -> None:
        """Append what another leader has left after a cleaning, now and then in an old format."""
        log = self._writer.log(self._topic)
        first = log.log_end_offset + self._draw.randrange(12)
        records = self._writer.records(2, first_offset=first)
        if self._draw.random() < 0.3:
            records = [record._replace(headers=()) for record in records]
            codec = CODEC_IDS[self._draw.choice(("uncompressed", "gzip"))]
            data, magic = build_legacy(records, 1, codec), 1
        else:
            options = BatchOptions(partition_leader_epoch=self._epoch)
            data, magic = build(records, base_offset=first, options=options), 2
        self._writer.append_at(self._topic, records, data, magic)

    def _change(self) -> None:
        setting = self._draw.choice(list(_CHANGES))
        self._writer.set(self._topic, **{setting: self._draw.choice(_CHANGES[setting])})

    def _clean(self) -> None:
        log = self._writer.log(self._topic)
        target = log_to_clean(log, first_dirty_offset(log), self._writer.clock.ms)
        if log.config.is_compacted and target.cleanable_bytes:
            self._writer.compact(self._topic)

    def _roll(self) -> None:
        self._writer.log(self._topic).roll(self._writer.clock.ms)

    def _elect(self) -> None:
        self._epoch += 1
        self._writer.log(self._topic).begin_leader_epoch(self._epoch)
