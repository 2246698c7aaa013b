"""Log compaction: records cleaned per second, memory of the cleaner, and what a producer beside it
notices.

Keys and values have fixed widths, so that a batch is put together from pieces: the load must not
take longer to make than to clean.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import raw_client, settings
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker
from kbroker.protocol import codec
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import BatchHeader, Record, build, join_batch

_TOPIC = "keyed"
_BATCH_RECORDS = 1000
_VALUE_BYTES = 100
_CODECS = (0, 1, 2, 3, 4)
_PACE_S = 0.002
_LAST_KEY = b"end"


def beside_a_producer(records: int = 5_000_000, keys: int = 100_000) -> Load:
    """Fill a compacted topic, let it be cleaned while a paced producer writes to another one, and
    check that exactly the last value of every key is left.
    """

    def load(broker: RunningBroker) -> Figures:
        settings.change(broker, settings.BROKER, "", {"log.cleaner.backoff.ms": "200"})
        raw_client.create_topic(broker.address, _TOPIC)
        # A ratio of 1 is never exceeded: nothing is cleaned until it is lowered.
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
        compacted["segment.bytes"] = str(16 << 20)
        settings.change(broker, settings.TOPIC, _TOPIC, compacted)
        fill_s = _fill(broker, records, keys)
        _close_segment(broker, records)
        producer = _PacedProducer(broker)
        without = producer.run(_for_a_while)
        watch = _CleanerWatch(broker.process.pid, records)
        settings.change(broker, settings.TOPIC, _TOPIC, {"min.cleanable.dirty.ratio": "0.01"})
        beside = producer.run(watch.has_ended)
        without += producer.run(_for_a_while)  # other loads of the machine come and go
        producer.close()
        _check(broker, records, keys)
        return {
            "fill_records_per_s": records / fill_s,
            "cleaned_records_per_s": records / watch.elapsed_s,
            "cleaner_rss_mib": watch.rss_mib,
            "produce_p50_without_ms": statistics.median(without),
            "produce_p50_beside_ms": statistics.median(beside),
            "produce_p99_without_ms": _p99(without),
            "produce_p99_beside_ms": _p99(beside),
            "produce_p99_ratio": _p99(beside) / _p99(without),
            "requests_beside": float(len(beside)),
        }

    return load


def _for_a_while(elapsed_s: float) -> bool:
    return elapsed_s > 10


def keyed_batch(first: int, keys: int, compression: int, now_ms: int) -> bytes:
    """Records `first` and on: key and value tell the number of each."""
    body = b"".join(
        b"%b\x00\x00%b\x18k%011d%bv%099d\x00"
        % (
            _varint(1 + 1 + len(delta) + 1 + 12 + 2 + _VALUE_BYTES + 1),
            delta,
            number * 7919 % keys,
            _varint(_VALUE_BYTES),
            number,
        )
        for number, delta in zip(range(first, first + _BATCH_RECORDS), _DELTAS, strict=True)
    )
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=compression,
        last_offset_delta=_BATCH_RECORDS - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=_BATCH_RECORDS,
    )
    return join_batch(header, body)


def _varint(value: int) -> bytes:
    value <<= 1
    return bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80, value >> 7))


_DELTAS = [_varint(delta) for delta in range(_BATCH_RECORDS)]


class _PacedProducer:
    """Sends a batch of 16 KiB every 2 ms and notes how long each answer takes, in ms."""

    def __init__(self, broker: RunningBroker) -> None:
        raw_client.create_topic(broker.address, "paced")
        self._client = raw_client.RawClient(broker.address)
        self._frame = raw_client.produce_frame("paced", raw_client.batch_of(16_384), acks=1)

    def run(self, is_over: Callable[[float], bool]) -> list[float]:
        latencies: list[float] = []
        begun = next_look = due = time.perf_counter()
        while True:
            now = time.perf_counter()
            if now >= next_look:
                if is_over(now - begun):
                    return latencies
                next_look = now + 0.05
                due = now = time.perf_counter()
            self._client.send(self._frame)
            self._client.receive()
            latencies.append((time.perf_counter() - now) * 1000)
            due += _PACE_S
            time.sleep(max(0.0, due - time.perf_counter()))

    def close(self) -> None:
        self._client.close()


class _CleanerWatch:
    """Sees how far the cleaner's checkpoint has come, and the broker's child process."""

    def __init__(self, pid: int, records: int) -> None:
        self._pid = pid
        self._records = records
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        data = arguments[arguments.index("--data") + 1]
        self._checkpoint = Path(data) / "cleaner-offset-checkpoint"
        self.elapsed_s = 0.0
        self.rss_mib = 0.0

    def has_ended(self, elapsed_s: float) -> bool:
        self.elapsed_s = elapsed_s
        for child in _children(self._pid):
            self.rss_mib = max(self.rss_mib, _peak_rss_mib(child))
        if elapsed_s > 600:
            raise RuntimeError("the log was not cleaned within 10 minutes")
        lines = self._checkpoint.read_text().splitlines() if self._checkpoint.exists() else []
        rows = (line.split() for line in lines[2:])
        return any(row[0] == _TOPIC and int(row[2]) >= self._records for row in rows)


def _children(pid: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == pid and fields[0] != "Z":
            yield int(stat.parent.name)


def _peak_rss_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")]
    return max(sizes, default=0.0)


def _fill(broker: RunningBroker, records: int, keys: int) -> float:
    client = raw_client.RawClient(broker.address)
    begun = time.perf_counter()
    for number in range(records // _BATCH_RECORDS):
        now_ms = time.time_ns() // 1_000_000
        batch = keyed_batch(number * _BATCH_RECORDS, keys, _CODECS[number % len(_CODECS)], now_ms)
        client.send(raw_client.produce_frame(_TOPIC, batch, acks=1))
        raw_client.produced(client.receive())
    client.close()
    return time.perf_counter() - begun


def _close_segment(broker: RunningBroker, records: int) -> None:
    """Let a record of another key start a segment: the active one is never cleaned."""
    settings.change(broker, settings.TOPIC, _TOPIC, {"segment.ms": "1"})
    time.sleep(0.01)
    value = b"v%099d" % records
    record = Record(0, time.time_ns() // 1_000_000, _LAST_KEY, value)
    client = raw_client.RawClient(broker.address)
    client.send(raw_client.produce_frame(_TOPIC, build([record]), acks=1))
    raw_client.produced(client.receive())
    client.close()


def _check(broker: RunningBroker, records: int, keys: int) -> None:
    """Every record lies at the offset it was written at; the last one of every key is there."""
    last: dict[bytes | None, int] = {_LAST_KEY: records}
    last |= {
        b"k%011d" % (number * 7919 % keys): number for number in range(records - keys, records)
    }
    found: dict[bytes | None, int] = {}
    count = 0
    for offset, key, value in _stored(broker):
        number = int((value or b"v-1")[1:])
        if number != offset:
            raise RuntimeError(f"record {number} lies at offset {offset}")
        found[key] = number
        count += 1
    if found != last or count != len(last):
        raise RuntimeError(f"{count} records of {len(found)} keys are left, not {len(last)}")
    print(f"  {count:,} of {records:,} records are left, for {len(found):,} keys")


def _stored(broker: RunningBroker) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    client = raw_client.RawClient(broker.address)
    offset = 0
    while True:
        client.send(raw_client.fetch_frame(_TOPIC, offset, max_wait_ms=0, max_bytes=4 << 20))
        answer = codec.decode(FetchResponse, 12, bytes(client.receive()), 5)[0]
        records: Any = answer.responses[0].partitions[0].records
        data = bytes(records or b"")
        position = 0
        while len(data) - position >= 61:
            header = read_any_header(data, position)
            if position + header.size_bytes > len(data):
                break
            for record in any_records(data, position):
                yield record.offset, record.key, record.value
            position += header.size_bytes
            offset = header.next_offset
        if not position:
            client.close()
            return


def _p99(latencies: list[float]) -> float:
    return sorted(latencies)[int(len(latencies) * 0.99)]
