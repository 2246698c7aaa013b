"""A log that was cleaned is found whole after an unclean stop, whatever its settings were since and
whatever became of the checkpoints: an offset that is missing is no damage.
"""

from __future__ import annotations

from random import Random

import pytest

from kbroker.config.config_def import replace
from kbroker.inspection.directory_check import check_data_directory
from kbroker.inspection.finding import Findings, Severity
from kbroker.inspection.log_walk import CUT, CheckOptions
from kbroker.log.partition.log import Log
from kbroker.log.segments.log_segment import LogSegment
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_cleaning import stored_batches

_TOPIC = {"segment_bytes": 700, "index_interval_bytes": 100, "min_cleanable_dirty_ratio": 0.0}
_CHECKPOINTS = ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint")


def cleaned_broker() -> CleaningBroker:
    """A log of several segments with gaps in them and between them, nothing of it noted as safe."""
    disk = RecordingFileSystem()
    disk.make_directory(DATA)
    disk.sync_directory("/")
    broker = CleaningBroker(disk, _TOPIC)
    log = broker.log()
    for number in range(40):
        keys = [b"k%d" % (number % 3)]
        if number % 7 == 0:
            keys.append(b"once-%d" % number)
        broker.write(log, *((key, b"%d" % number * 20) for key in keys))
    broker.roll(log)
    broker.clean()
    assert log.cleaned_end_offset
    return broker


def set_policy(broker: CleaningBroker, *policy: str) -> None:
    broker.topic = replace(broker.topic, cleanup_policy=policy)
    broker.logs.update_topic_config("t", broker.topic)


def contents(log: Log) -> tuple[list[bytes], int]:
    return [data for _, data in stored_batches(log)], log.log_end_offset


def restarted(broker: CleaningBroker, disk: RecordingFileSystem) -> CleaningBroker:
    settings = {"cleanup_policy": broker.topic.cleanup_policy}
    return CleaningBroker(disk, _TOPIC | settings)


def killed(broker: CleaningBroker) -> RecordingFileSystem:
    assert isinstance(broker.disk, RecordingFileSystem)
    return broker.disk.image(Random(0), "killed")


def has_gap_between_segments(log: Log) -> bool:
    ends = [segment.next_offset for segment in log.segments]
    bases = log.segments.base_offsets
    return any(end != base for end, base in zip(ends, bases[1:], strict=False))


POLICIES = [
    [("compact",)],
    [("delete",)],
    [("delete",), ("compact", "delete")],
    [("compact", "delete"), ("delete",)],
]


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@pytest.mark.parametrize(
    "without", [(), *((name,) for name in _CHECKPOINTS), _CHECKPOINTS], ids=str
)
@pytest.mark.parametrize("becomes", [None, b"", b"0\nnonsense"], ids=str)
def test_a_killed_broker_leaves_all_of_a_log_that_was_once_compacted(
    policies: list[tuple[str, ...]], without: tuple[str, ...], becomes: bytes | None
) -> None:
    broker = cleaned_broker()
    log = broker.log()
    assert has_gap_between_segments(log)
    for policy in policies:
        set_policy(broker, *policy)
        broker.cleaner.look()  # the checkpoint follows the policy
    for number in range(9):
        broker.write(log, (b"k%d" % (number % 2), b"new" * 30))
    before = contents(log)
    disk = killed(broker)
    for name in without:
        disk.unlink(f"{DATA}/{name}")
        if becomes is not None:
            disk.write_bytes(f"{DATA}/{name}", becomes)

    found = restarted(broker, disk).log()

    assert contents(found) == before


def test_a_power_loss_that_takes_the_end_of_a_segment_still_takes_what_follows() -> None:
    broker = cleaned_broker()
    log = broker.log()
    set_policy(broker, "delete")
    for _ in range(12):
        broker.write(log, (b"k", b"new" * 30))
    kept, before, after = list(log.segments)[-3:]
    assert kept.base_offset >= log.cleaned_end_offset
    disk = killed(broker)
    path = f"{DATA}/t-0/{before.base_offset:020d}.log"
    first = next(header for _, header in before.records.headers())
    disk.truncate(path, first.size_bytes)
    findings = Findings()
    check_data_directory(disk, DATA, CheckOptions(), findings)
    told = [(found.severity, found.offset) for found in findings.all() if found.advice == CUT]
    assert told == [(Severity.ERROR, first.next_offset)]

    found = restarted(broker, disk).log()

    assert found.log_end_offset == first.next_offset < after.base_offset
    assert not disk.exists(f"{DATA}/t-0/{after.base_offset:020d}.log")


def ends_behind_a_gap(segment: LogSegment) -> bool:
    headers = [header for _, header in segment.records.headers()]
    ends = [segment.base_offset, *(header.next_offset for header in headers)]
    return bool(headers) and headers[-1].base_offset > ends[-2]


def test_a_gap_before_the_last_batch_is_no_damage_in_a_log_that_was_cleaned() -> None:
    broker = cleaned_broker()
    log = broker.log()
    last = max(
        (s for s in list(log.segments)[:-1] if ends_behind_a_gap(s)), key=lambda s: s.base_offset
    )
    set_policy(broker, "delete")
    disk = killed(broker)
    for base_offset in log.segments.base_offsets:
        if base_offset > last.base_offset:  # as a truncation leaves it
            disk.unlink(f"{DATA}/t-0/{base_offset:020d}.log")

    found = restarted(broker, disk).log()

    assert found.log_end_offset == last.next_offset
