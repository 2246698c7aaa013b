"""What a restore into a data directory is to make, as it follows from an archive and a wish."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import msgspec
import pytest

from kbroker.config.topic_config import KEEP_ALL
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.manifests.manifest import EXPIRED, EpochNote, FileEntry, HoleEntry
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.restoring.logs.log_restore import LogEncoding, LogRestore
from kbroker.pipeline.restoring.logs.restore_note import (
    NotedLog,
    NotedTopic,
    RestoreNote,
    check_reaches,
    cluster_id_of,
    expired_since,
    noted_topics,
)
from kbroker.pipeline.restoring.logs.restored_directory import RestoredDirectory
from kbroker.pipeline.restoring.restore_plan import RestoreChoice, plan_restore

ID = UUID("11111111-2222-4333-8444-555555555555")
DAY_MS = 86_400_000


def file(first_offset: int, rows: int, max_timestamp_ms: int) -> FileEntry:
    last_offset = first_offset + rows - 1
    return FileEntry(
        path=f"data/t/2026-11-21/20/t-0-{first_offset}-{last_offset}.parquet", topic="t",
        partition=0, hour="2026-11-21T20", first_offset=first_offset, last_offset=last_offset,
        rows=rows, size_bytes=1, min_timestamp_ms=0, max_timestamp_ms=max_timestamp_ms,
        checksum="crc32c:00000000",
    )  # fmt: skip


def archived(*more: FileEntry, **fields: object) -> ArchiveState:
    """Partitions 0 and 2 of t; all records of 2 are expired."""
    return ArchiveState(
        path="/archive",
        archive_id="id",
        files={entry.path: entry for entry in (file(7, 3, 10 * DAY_MS), *more)},
        ranges={
            TopicPartition("t", 0): (Stretch(5, 9), Stretch(9, 20)),
            TopicPartition("t", 2): (Stretch(0, 30),),
        },
        **fields,  # type: ignore[arg-type]
    )


def noted(
    state: ArchiveState,
    wish: RestoreChoice | None = None,
    settings: Mapping[str, str] | None = None,
) -> NotedTopic:
    (topic,) = noted_topics(state, plan_restore(state, wish or RestoreChoice()), settings or {})
    return topic


def test_logs_begin_with_the_first_record_and_end_where_the_archive_does() -> None:
    epoch = EpochNote(topic="t", partition=0, leader_epoch=4, end_offset=20)
    topic = noted(archived(leader_epochs={TopicPartition("t", 0): epoch}))

    assert topic.logs == (
        NotedLog(topic="t", partition=0, start_offset=7, end_offset=20, leader_epoch=4, expired=0),
        NotedLog(topic="t", partition=2, start_offset=30, end_offset=30, leader_epoch=0, expired=0),
    )
    assert topic.leader_epochs == (5, 0, 1)


def test_what_is_chosen_changes_neither_offsets_nor_the_number_of_partitions() -> None:
    state = archived(partition_counts={"t": 6})
    wish = RestoreChoice(wanted=ArchiveSelection(partitions=(2,), start_ms=DAY_MS))

    topic = noted(state, wish)

    assert topic.partitions == 6
    assert topic.logs == noted(state).logs[1:]


def test_a_topic_keeps_its_id_under_its_own_name_alone() -> None:
    state = archived(topic_ids={"t": str(ID)})

    renamed = noted(state, RestoreChoice(renamed={"t": "u"}))

    assert noted(state).topic_id == ID
    assert (renamed.name, renamed.topic_id != ID) == ("u", True)


def test_settings_are_those_it_had_where_a_broker_can_use_them() -> None:
    had = {"retention.ms": "5", "min.insync.replicas": "2", "from.a.later.kafka": "1"}
    topic = noted(archived(topic_settings={"t": had}), settings={"retention.ms": "9"})

    assert topic.settings == {"retention.ms": "9", "min.insync.replicas": "1"}
    assert topic.is_known
    assert noted(archived(topic_settings={"t": {}})).settings == {}


def test_a_topic_of_unknown_settings_keeps_all_records() -> None:
    topic = noted(archived(), settings={"retention.bytes": "7"})

    assert topic.settings == {**KEEP_ALL, "retention.bytes": "7"}
    assert not topic.is_known


@pytest.mark.parametrize(
    ("settings", "wished", "warned"),
    [
        (None, {}, ["t keeps all records, as its settings are not known"]),
        (None, {"retention.ms": str(90 * DAY_MS)}, []),
        (None, {"retention.ms": str(3 * DAY_MS)}, ["t has records that are older than its"]),
        ({}, {}, ["t has records that are older than its retention.ms"]),
        ({"retention.ms": "-1"}, {}, []),
        ({"retention.ms": "-1", "retention.bytes": "7"}, {}, ["t has retention.bytes=7: a broker"]),
        ({"cleanup.policy": "compact", "retention.bytes": "7"}, {}, []),
        ({"retention.ms": str(3 * DAY_MS)}, {}, ["t has records that are older than its"]),
        ({"retention.ms": str(90 * DAY_MS)}, {}, []),
    ],
)
def test_a_person_is_told_what_a_broker_would_delete(
    settings: dict[str, str] | None, wished: dict[str, str], warned: list[str]
) -> None:
    newer = file(10, 5, 19 * DAY_MS)
    state = archived(newer, topic_settings={} if settings is None else {"t": settings})
    wish = RestoreChoice()
    plans = plan_restore(state, wish)
    note = RestoreNote(job_id=str(ID), command="", topics=noted_topics(state, plans, wished))
    restore = LogRestore(
        archive="/archive",
        directory=RestoredDirectory("/data"),
        note=note,
        plans=plans,
        choice=wish,
        how=LogEncoding(),
    )

    said = list(restore.warnings(now_ms=20 * DAY_MS))

    assert [sentence.startswith(each) for sentence, each in zip(said, warned, strict=True)] == [
        True
    ] * len(warned)


@pytest.mark.parametrize(
    ("renamed", "settings", "sentence"),
    [
        ({"t": "__consumer_offsets"}, {}, "is a topic of the brokers' own"),
        ({}, {"retention.ms": "x"}, "topic t cannot have such settings: Invalid value x"),
        ({}, {"no.such": "x"}, "topic t cannot have such settings: Unknown topic config name"),
    ],
)
def test_what_no_broker_could_serve_is_refused(
    renamed: dict[str, str], settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence) as refused:
        noted(archived(), RestoreChoice(renamed=renamed), settings)

    assert refused.value.code is ExitCode.USAGE


def test_an_archive_that_ends_before_the_logs_to_make_is_refused() -> None:
    note = RestoreNote(job_id=str(ID), command="", topics=(noted(archived()),))
    older, without = archived(), archived()
    older.ranges[TopicPartition("t", 0)] = (Stretch(5, 15),)
    del without.ranges[TopicPartition("t", 2)]

    check_reaches(archived(file(20, 9, DAY_MS)), note)
    with pytest.raises(PipelineError, match="ends at offset 15 of t-0, and ended at 20 when"):
        check_reaches(older, note)
    with pytest.raises(PipelineError, match="has nothing of t-2, and ended at 30 when"):
        check_reaches(without, note)


def test_what_expires_between_two_runs_is_said() -> None:
    def expired(first_offset: int, rows: int) -> HoleEntry:
        return HoleEntry(
            topic="t", partition=0, first_offset=first_offset, last_offset=first_offset + rows - 1,
            missing=rows, reason=EXPIRED,
        )  # fmt: skip

    before = archived(holes={TopicPartition("t", 0): (expired(5, 2),)})
    note = RestoreNote(job_id=str(ID), command="", topics=(noted(before),))
    later = archived(holes={TopicPartition("t", 0): (expired(5, 2), expired(7, 3), expired(20, 9))})
    old_log = msgspec.structs.replace(note.topics[0].logs[0], expired=None)
    old_topic = msgspec.structs.replace(note.topics[0], logs=(old_log,))
    of_an_older_version = msgspec.structs.replace(note, topics=(old_topic,))

    assert list(expired_since(before, note)) == []
    assert [sentence.partition(" since")[0] for sentence in expired_since(later, note)] == [
        "3 records of t-0 have expired from the archive"
    ]
    assert list(expired_since(later, of_an_older_version)) == []


def test_a_note_is_read_as_it_was_written() -> None:
    note = RestoreNote(job_id=str(ID), command="go on", topics=(noted(archived()),))

    assert msgspec.json.decode(msgspec.json.encode(note), type=RestoreNote) == note
    assert len(cluster_id_of(note.job_id)) == 22
