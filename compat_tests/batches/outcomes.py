"""What becomes of batches that are hard to read, once a broker was asked to store them: which record
a time finds, what retention and compaction leave, what the oldest versions of Fetch and a Java
consumer read.

Each batch holds two records: "aged", of eight days ago, and "fresh", of now.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from random import Random
from typing import NamedTuple

import cramjam

from compat_tests.answers.accepted import HARD_BATCHES, reason
from compat_tests.batches.payloads import GZIP, LZ4, NONE, ZSTD, record
from compat_tests.batches.reading import UNREADABLE, JavaReader
from compat_tests.clients import node_clients
from compat_tests.clients.every_client import run
from compat_tests.clients.raw_connection import ClosedError
from compat_tests.running.prerequisites import require_program
from compat_tests.running.waiting import until
from compat_tests.wire import old_versions
from compat_tests.wire.record_bytes import ONE, Batch, first_batch, varint
from compat_tests.wire.wire_client import WireClient

HOUR_MS = 3_600_000
EIGHT_DAYS_MS = 8 * 24 * HOUR_MS
LARGE_BYTES = 80_000_000
_KEPT = {"retention.ms": str(EIGHT_DAYS_MS - 24 * HOUR_MS)}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "segment.bytes": "1048576",  # the least that 4.3.1 takes
}
_FILLER = Batch(pairs=((b"filler", bytes(700_000)),))  # two of them end a segment
_SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
_OLD_FETCHES = (1, 3)  # which get formats 0 and 1
NODE_KINDS = tuple(
    (f"kafkajs {codec} {order}", codec, order)
    for codec in ("none", "gzip")
    for order in ("aged-first", "fresh-first")
)


class Kind(NamedTuple):
    """A batch, but for its times."""

    codec: int
    payload: bytes
    newest: str = "fresh"  # the record whose time the header has


def kinds() -> dict[str, Kind]:
    """The batches that need no client of their own."""
    aged, fresh = _record(0, "aged"), _record(1, "fresh")
    large = aged + _record(1, "fresh", bytes(LARGE_BYTES))
    disordered = _record(0, "fresh") + _record(1, "aged")
    return {
        "header with the last time": Kind(NONE, disordered, "aged"),
        "gzip, header with the last time": Kind(GZIP, gzip.compress(disordered), "aged"),
        "linked lz4": Kind(LZ4, _lz4(aged + fresh, linked=True)),
        "two lz4 frames": Kind(LZ4, _lz4(aged) + _lz4(fresh)),
        "lz4 after a skippable frame": Kind(LZ4, _SKIPPABLE + _lz4(aged + fresh)),
        "large gzip": Kind(GZIP, gzip.compress(large, 1)),
        "large zstd": Kind(ZSTD, bytes(cramjam.zstd.compress(large, level=1))),
    }


def _record(index: int, name: str, value: bytes | None = None) -> bytes:
    delta = varint(EIGHT_DAYS_MS if name == "fresh" else 0)
    content = name.encode()
    key, held = (varint(len(part)) + part for part in (content, value or content))
    return record(Random(0), index, delta=delta, key=key, value=held, headers=b"\0")


def _lz4(plain: bytes, *, linked: bool = False) -> bytes:
    packer = cramjam.lz4.Compressor(block_linked=linked)
    packer.compress(plain)
    return bytes(packer.finish())


class Outcomes:
    """What one broker makes of them; `found` has it by what was asked."""

    def __init__(self, bootstrap: str, reader: JavaReader, now_ms: int) -> None:
        self.found: dict[str, str] = {}
        self._bootstrap = bootstrap
        self._client = WireClient(bootstrap, timeout_s=60)
        self._reader = reader
        self._now_ms = now_ms
        self._taken: list[str] = []

    def write(self, batches: Mapping[str, Kind]) -> None:
        """Send each to a topic of its own that deletes, and to one that compacts."""
        wanted = []
        for name, codec, order in NODE_KINDS:
            for topic in self._topics(name):
                wanted += [topic, codec, order]
            self._taken.append(name)
        node = require_program("node", "install Node.js 20 or newer")
        run([node, str(node_clients.folder() / "aged.js"), self._bootstrap, *wanted])
        for name, kind in batches.items():
            for topic in self._topics(name):
                said = self._produce(topic, self._batch(kind))
                self.found[f"produce of {name}"] = said
            if said == "0":
                self._taken.append(name)
        for name in self._taken:
            for _ in range(2):
                assert self._produce(_named("compact", name), _FILLER.to_bytes()) == "0"

    def look(self) -> None:
        """Ask for what came of those that were taken."""
        self._retain()
        for name in self._taken:
            until(partial(self._is_compacted, name), f"{name} is compacted")
            for how in ("delete", "compact"):
                topic = _named(how, name)
                self._find(f"{how}, {name}", topic)
                self._read(f"{how}, {name}", topic)
            for version in _OLD_FETCHES:
                self.found[f"fetch {version}, {name}"] = self._old(_named("delete", name), version)
        self._client.close()

    def _topics(self, name: str) -> Iterator[str]:
        """Make both topics; the one that compacts has older records with the same keys."""
        yield self._client.create_topic(_named("delete", name), configs=_KEPT)
        compacted = self._client.create_topic(_named("compact", name), configs=_COMPACTED)
        older = Batch(pairs=((b"aged", b"1"), (b"fresh", b"2")), timestamp_ms=self._aged_ms)
        assert self._produce(compacted, older.to_bytes()) == "0"
        yield compacted

    def _produce(self, topic: str, records: bytes) -> str:
        """The code of the answer, once the broker knows that it leads."""
        told = until(partial(self._answer, topic, records), topic)
        return told.split("; ")[0].split(" (")[0]

    def _answer(self, topic: str, records: bytes) -> str | None:
        answer = self._client.produce(topic, records)
        return None if answer.startswith(("3 ", "6 ")) else answer

    @property
    def _aged_ms(self) -> int:
        return self._now_ms - EIGHT_DAYS_MS

    def _batch(self, kind: Kind) -> bytes:
        newest_ms = self._now_ms if kind.newest == "fresh" else self._aged_ms
        return Batch(
            pairs=ONE * 2, attributes=kind.codec, payload=kind.payload,
            timestamp_ms=self._aged_ms, max_timestamp_ms=newest_ms,
        ).to_bytes()  # fmt: skip

    def _retain(self) -> None:
        """Return when all logs were looked at for what is too old, after everything was written."""
        for number in range(2):  # the look that deletes the first may have begun before
            control = self._client.create_topic(f"control-{number}", configs=_KEPT)
            old = Batch(timestamp_ms=self._aged_ms).to_bytes()
            assert self._produce(control, old) == "0"
            until(partial(self._is_empty_from, control, 1), control)

    def _is_empty_from(self, topic: str, offset: int) -> bool:
        return self._client.list_offsets(topic, -2).split()[1] == f"offset={offset}"

    def _is_compacted(self, name: str) -> bool:
        """The records that were there before the batch are gone."""
        records = self._client.fetch(_named("compact", name), 0, version=10).records
        return first_batch(records)["base_offset"] >= 2

    def _find(self, what: str, topic: str) -> None:
        times = {"start": self._client.list_offsets(topic, -2).split()[1]}
        for label, asked_ms in (
            ("an hour ago", self._now_ms - HOUR_MS), ("nine days ago", self._aged_ms - 24 * HOUR_MS),
            ("newest", -3),
        ):  # fmt: skip
            code, offset, found, _ = self._client.list_offsets(topic, asked_ms).split()
            times[label] = f"{code} {offset} {self._age(int(found.removeprefix('ts=')))}"
        self.found[f"offsets of {what}"] = str(times)

    def _read(self, what: str, topic: str) -> None:
        found = self._reader.new_records(self._bootstrap, topic, 1)
        self.found[f"java reads of {what}"] = str(
            [
                (offset, "kafkajs" if "kafkajs" in what and checksum != UNREADABLE else checksum)
                for (_, offset), checksum in sorted(found.items())
            ]
        )

    def _old(self, topic: str, version: int) -> str:
        """Fetch it as a client from before format 2 does, and tell what came."""
        client = WireClient(self._bootstrap, timeout_s=60)
        try:
            (read,) = old_versions.fetch(client, version, topic, 0)
        except ClosedError:
            return "closed"
        finally:
            client.close()
        if read.error_code:
            return str(read.error_code)
        return str(
            [
                (each.offset, each.key, len(each.value or b""), self._age(each.timestamp_ms))
                for each in old_versions.messages(read.records)
            ]
        )

    def _age(self, timestamp_ms: int) -> str:
        """Times of KafkaJS are its own, and so only hours are held against each other."""
        if timestamp_ms < 0:
            return "no time"
        return f"{round((self._now_ms - timestamp_ms) / HOUR_MS)} h"


def differing(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """List what kbroker makes of them otherwise than an Apache Kafka, and no allowance explains."""
    own = found["kbroker"]
    return [
        f"{asked}: {own.get(asked)}; {name}: {answer}"
        for name, answers in found.items()
        for asked, answer in answers.items()
        if answer != own.get(asked)
        and reason(HARD_BATCHES, asked, "", own.get(asked), other=name) is None
    ]


def _named(how: str, name: str) -> str:
    return f"{how}-{name}".replace(" ", "-").replace(",", "").replace("'", "")
