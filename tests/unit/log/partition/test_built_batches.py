"""A batch that a coordinator has just built goes into the log unread, and leaves there what it
leaves when it is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.segments.log_segment import LogSegment
from kbroker.record.built_batch import BuiltBatch, build_at_one_time
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    marker_options,
    marker_record,
)
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log
from tests.fakes.logs.verified_batches import verified

PLAIN = BatchOptions(base_sequence=0)


def append(log: Log, data: bytearray, epoch: int = 0, now_ms: int = NOW_MS) -> LogAppendInfo:
    return log.append_as_leader(data, epoch, now_ms, origin=AppendOrigin.COORDINATOR)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def generated(rng: random.Random, count: int) -> list[BuiltBatch]:
    """Batches of commits, some in transactions, some of which end; times rise, and fall a bit."""
    made = []
    for at in range(count):
        producer = rng.randrange(4)
        options = PLAIN
        if producer:
            options = BatchOptions(
                flags=TRANSACTIONAL_BIT, producer_id=producer, producer_epoch=0, base_sequence=0
            )
        rows: list[tuple[bytes, bytes | None]] = [
            (rng.randbytes(rng.randrange(60)), rng.choice([None, rng.randbytes(24)]))
            for _ in range(rng.choice([1, 1, 1, 2, 9]))
        ]
        if producer and not rng.randrange(3):
            options = marker_options(options)
            rows = [marker_record(ControlRecord(bool(rng.randrange(2)), 0))]
        made.append(build_at_one_time(rows, NOW_MS + 10 * at - rng.randrange(40), options))
    return made


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_thousands_of_batches_leave_the_same_files_and_state_as_when_they_are_read(
    tmp_path: Path, timestamp_type: str
) -> None:
    settings: dict[str, Any] = {
        "message_timestamp_type": timestamp_type,
        "segment_bytes": 40_000,
        "index_interval_bytes": 500,
    }
    unread, read = (open_log(tmp_path / name, **settings) for name in ("unread", "read"))

    for at, made in enumerate(generated(random.Random(1), 3_000)):
        verified(read, bytearray(made))
        verified(unread, made)
        infos = [
            append(log, data, at // 500, NOW_MS + at)
            for log, data in ((read, bytearray(made)), (unread, made))
        ]
        assert infos[0]._replace(log_append_time=-1) == infos[1]._replace(log_append_time=-1)
        assert read.last_stable_offset == unread.last_stable_offset

    read.close()
    unread.close()
    assert len(files(tmp_path / "read")) > 12
    assert files(tmp_path / "unread") == files(tmp_path / "read")


def too_large(log: Log) -> BuiltBatch:
    return build_at_one_time([(b"k", b"v" * log.rules.max_message_bytes)], NOW_MS, PLAIN)


def larger_than_a_segment(log: Log) -> BuiltBatch:
    return build_at_one_time([(b"k", b"v" * log.rules.segment_bytes)], NOW_MS, PLAIN)


@pytest.mark.parametrize(
    ("make", "settings", "code"),
    [
        (too_large, {"max_message_bytes": 500}, ErrorCode.MESSAGE_TOO_LARGE),
        (larger_than_a_segment, {"segment_bytes": 900}, ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("as_built", [BuiltBatch.copy, lambda made: made])
def test_it_is_held_to_the_limits_of_the_topic(
    tmp_path: Path,
    make: Callable[[Log], BuiltBatch],
    settings: dict[str, Any],
    code: ErrorCode,
    as_built: Callable[[BuiltBatch], bytearray],
) -> None:
    log = open_log(tmp_path, **settings)

    with pytest.raises(KafkaError) as refused:
        append(log, as_built(make(log)))

    assert refused.value.code == code
    assert log.log_end_offset == 0
    assert log.segments.active.size_bytes == 0


def test_what_the_disk_refuses_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, build_at_one_time([(b"k", b"1")], NOW_MS, PLAIN))

    def full(*_: object) -> int:
        raise StorageError("log", "write", 28)

    with monkeypatch.context() as patched:
        patched.setattr(LogSegment, "append", full)
        with pytest.raises(KafkaError) as refused:
            append(log, build_at_one_time([(b"k", b"2")], NOW_MS, PLAIN), epoch=3)

    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == 1
    assert append(log, build_at_one_time([(b"k", b"2")], NOW_MS, PLAIN)).first_offset == 1


def test_bytes_that_were_not_built_here_are_read_and_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    broken = batch(b"v")
    broken[-1] ^= 1

    with pytest.raises(KafkaError) as refused:
        append(log, broken)

    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
