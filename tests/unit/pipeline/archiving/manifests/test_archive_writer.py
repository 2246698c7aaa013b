"""Publishing: whenever it is cut, a run goes on to the same archive, and nothing is there half."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import msgspec
import pytest

from kbroker.log.disk.file_system import StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests import archive_writer
from kbroker.pipeline.archiving.manifests.archive_mark import check_target
from kbroker.pipeline.archiving.manifests.archive_reading import (
    LOCK_NAME,
    MARK_NAME,
    SNAPSHOT_EVERY,
    read_archive,
)
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveStep
from kbroker.pipeline.archiving.manifests.file_check import check_file
from kbroker.pipeline.archiving.manifests.manifest import (
    EXPIRED,
    EpochNote,
    Manifest,
    checksum_of,
    encode_manifest,
    unseal,
)
from kbroker.pipeline.errors import ExitCode, PipelineError
from tests.fakes.archives.archive_maker import (
    JOB,
    NOW_MS,
    PATH,
    file_entry,
    files_below,
    hole,
    offsets,
    publish_batch,
    stage,
    two_batches,
    writer,
)
from tests.fakes.disks.archive_disk import RecordingArchiveDisk
from tests.fakes.disks.failing_file_system import FailingFileSystem

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Killed(BaseException):
    """The process is gone."""


def new_disk() -> RecordingArchiveDisk:
    return RecordingArchiveDisk(now_ms=lambda: NOW_MS)


def changes_of_a_run() -> int:
    disk = new_disk()
    two_batches(disk)
    return disk.sequence


def another_manifest(number: int = 2) -> Manifest:
    return Manifest(
        archive_id="another", number=number, kind="clean", kbroker_version="0", written_ms=0,
        job="j", batch=0,
    )  # fmt: skip


CHANGES = changes_of_a_run()
MODES = ("lost", "killed", "ordered", "random", "sizes only", "data only")


def check_whole(disk: RecordingArchiveDisk) -> None:
    """The archive of both batches, every file as written, and nothing besides."""
    state = read_archive(PATH, disk)
    assert state.ranges == {T0: ((0, 25),), T1: ((0, 4),)}
    assert state.jobs == {JOB: 1}
    assert state.number == 1
    assert sorted(state.files) == files_below(disk, "data")
    assert [check_file(PATH, entry, disk) for entry in state.files.values()] == [None] * 3
    assert files_below(disk, "staging") == [f"staging/{JOB}.lock"]


def test_two_batches_are_an_archive() -> None:
    disk = new_disk()

    state = two_batches(disk)

    assert sorted(state.files) == [
        "data/t/2026-11-21/13/t-0-0-9.parquet",
        "data/t/2026-11-21/13/t-0-10-24.parquet",
        "data/t/2026-11-21/13/t-1-0-3.parquet",
    ]
    check_whole(disk)


def test_a_copy_without_locks_and_staging_is_the_archive_and_goes_on() -> None:
    disk = new_disk()
    two_batches(disk)
    disk.remove_tree(f"{PATH}/staging")
    disk.unlink(f"{PATH}/{LOCK_NAME}")

    with writer(disk) as hand:
        publish_batch(hand, disk, 2, ranges=(offsets(25, 30),))

    assert read_archive(PATH, disk).ranges[T0] == ((0, 30),)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_lost_power_at_any_moment_goes_on_to_the_same_archive(mode: str) -> None:
    for moment in range(1, CHANGES + 1):
        disk = new_disk()

        def die(
            operation: str, path: str, disk: RecordingArchiveDisk = disk, at: int = moment
        ) -> None:
            if disk.sequence == at:
                raise Killed

        disk.before_change = die
        with pytest.raises(Killed):
            two_batches(disk)
        image = disk.image(Random(moment), mode)
        two_batches(image)
        check_whole(image)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_run_whose_disk_fails_at_any_moment_says_so_and_goes_on_later(number: int) -> None:
    for moment in range(1, CHANGES + 1):
        disk = new_disk()

        def fail(
            operation: str, path: str, disk: RecordingArchiveDisk = disk, at: int = moment
        ) -> None:
            if disk.sequence == at:
                raise StorageError(path, operation, number)

        disk.before_change = fail
        with contextlib.suppress(PipelineError, StorageError):
            two_batches(disk)
        disk.before_change = None
        two_batches(disk)
        check_whole(disk)


def test_a_batch_whose_manifest_is_there_is_done() -> None:
    disk = new_disk()
    two_batches(disk)

    with writer(disk) as hand:
        assert hand.is_done(1, [offsets(10, 25)])
        assert not hand.is_done(2, [offsets(25, 30)])


def test_a_batch_that_was_published_with_other_offsets_is_refused() -> None:
    disk = new_disk()
    two_batches(disk)

    with writer(disk) as hand, pytest.raises(PipelineError, match="not with the offsets 25 to 29"):
        hand.is_done(1, [offsets(10, 30)])


def test_offsets_of_another_job_are_refused() -> None:
    disk = new_disk()
    two_batches(disk)

    with writer(disk, "job-b") as hand, pytest.raises(PipelineError, match="5 to 24 of t-0 are in"):
        publish_batch(hand, disk, 0, ranges=(offsets(5, 30),))


def test_two_jobs_archive_different_topics_into_one_archive() -> None:
    disk = new_disk()
    two_batches(disk)

    with writer(disk) as one, writer(disk, "job-b") as other:
        publish_batch(other, disk, 0, ranges=(offsets(0, 3, topic="u"),))
        publish_batch(one, disk, 2, ranges=(offsets(25, 26),))

    state = read_archive(PATH, disk)
    assert state.topics() == ["t", "u"]
    assert state.jobs == {JOB: 2, "job-b": 0}


def test_a_second_run_of_a_job_is_refused_while_the_first_one_lives() -> None:
    disk = new_disk()

    with writer(disk), pytest.raises(PipelineError, match="job job-a already runs on the archive"):
        writer(disk)
    writer(disk).close()


def test_a_writer_that_a_lock_did_not_hold_back_loses_the_race_and_changes_nothing() -> None:
    disk = new_disk()
    two_batches(disk)
    with writer(disk, "job-b") as hand:
        directory = hand.staging_directory(0)
        step = ArchiveStep(
            kind="batch",
            batch=0,
            ranges=(offsets(0, 3, topic="u"),),
            files=(stage(disk, directory, file_entry(0, 2, topic="u")),),
        )
        taken = f"{PATH}/manifests/{2:020d}.json"

        def publish_another(operation: str, path: str) -> None:
            if path == f"{PATH}/staging/job-b-0/manifest" and operation == "create":
                disk.before_change = None
                disk.write_bytes(taken, b"another's")

        disk.before_change = publish_another
        with pytest.raises(PipelineError, match="another writer published manifest 2"):
            hand.publish(step)

    assert disk.read_bytes(taken) == b"another's"


def test_a_file_that_nobody_names_is_not_replaced() -> None:
    disk = new_disk()
    two_batches(disk)
    stray = f"{PATH}/data/t/2026-11-21/13/t-0-25-29.parquet"
    disk.write_bytes(stray, b"whose?")

    for _ in range(2):  # the next run removes what this one has left, which the file is not
        with writer(disk) as hand, pytest.raises(PipelineError, match="no manifest names it"):
            publish_batch(hand, disk, 2, ranges=(offsets(25, 30),))

    assert disk.read_bytes(stray) == b"whose?"
    assert read_archive(PATH, disk).number == 1


def test_a_batch_that_does_not_add_up_is_not_published() -> None:
    disk = new_disk()
    two_batches(disk)

    with writer(disk) as hand, pytest.raises(PipelineError, match="batch 2 was not archived: t-0"):
        publish_batch(
            hand, disk, 2, ranges=(offsets(25, 30),), entries=(file_entry(25, 29, rows=4),)
        )

    assert read_archive(PATH, disk).number == 1


def test_what_jobs_left_that_died_is_removed_and_what_lives_is_not() -> None:
    disk = new_disk()
    two_batches(disk)
    with writer(disk, "dead") as dead:
        stage(disk, dead.staging_directory(0), file_entry(0, 2, topic="u"))
    with writer(disk, "alive") as alive:
        stage(disk, alive.staging_directory(0), file_entry(0, 2, topic="v"))

        with writer(disk):
            pass

        assert any("staging/alive-0/" in path for path in files_below(disk, "staging"))
    assert not any("dead-0" in path for path in files_below(disk, "staging"))


def test_tasks_of_a_killed_run_do_not_meet_those_of_the_next_one() -> None:
    disk = new_disk()
    with writer(disk) as killed:
        old = killed.staging_directory(0)

    with writer(disk) as hand:
        new = hand.staging_directory(0)

    assert (disk.exists(old), disk.exists(new)) == (False, True)


def test_readers_see_merged_files_or_those_they_were_made_of() -> None:
    disk = new_disk()
    two_batches(disk)
    merged = file_entry(0, 24)
    old = ("data/t/2026-11-21/13/t-0-0-9.parquet", "data/t/2026-11-21/13/t-0-10-24.parquet")

    with writer(disk, "upkeep") as hand:
        staged = stage(disk, hand.staging_directory(2), merged)
        hand.publish(ArchiveStep(kind="merge", batch=2, files=(staged,), removed=old))

    state = read_archive(PATH, disk)
    assert [entry.path for entry in state.entries(T0)] == [merged.path]
    assert state.waiting == dict.fromkeys(old, NOW_MS)
    assert all(disk.exists(f"{PATH}/{path}") for path in old)


def test_removed_files_are_deleted_once_their_readers_had_time() -> None:
    disk = new_disk()
    two_batches(disk)
    old = "data/t/2026-11-21/13/t-0-0-9.parquet"
    with writer(disk, "upkeep") as hand:
        gone = hole(0, 9, EXPIRED)
        hand.publish(ArchiveStep(kind="expire", batch=2, holes=(gone,), removed=(old,)))
        assert hand.delete_removed(1_000) == 0

    with writer(disk, "upkeep", NOW_MS + 1_000) as hand:
        assert hand.delete_removed(1_000) == 1
        assert hand.delete_removed(1_000) == 0

    state = read_archive(PATH, disk)
    assert not disk.exists(f"{PATH}/{old}")
    assert (state.waiting, state.holes) == ({}, {T0: (gone,)})
    assert state.ranges[T0] == ((0, 25),)


def test_two_that_remove_the_same_file_are_one_too_many() -> None:
    disk = new_disk()
    two_batches(disk)
    old = ("data/t/2026-11-21/13/t-0-0-9.parquet",)
    with writer(disk, "upkeep") as one, writer(disk, "other") as two:
        one.publish(ArchiveStep(kind="expire", batch=2, removed=old))

        with pytest.raises(
            PipelineError, match="was removed from the archive /archive by another run"
        ):
            two.publish(ArchiveStep(kind="expire", batch=2, removed=old))


def history(disk: RecordingArchiveDisk, manifests: int) -> None:
    with writer(disk) as hand:
        for batch in range(manifests):
            publish_batch(hand, disk, batch, ranges=(offsets(batch, batch + 1),))


def snapshot(number: int) -> str:
    return f"{PATH}/manifests/{number:020d}.snapshot.json"


def test_a_long_history_is_read_from_its_last_snapshot_and_says_the_same() -> None:
    disk = new_disk()
    history(disk, SNAPSHOT_EVERY + 5)
    read = FailingFileSystem(disk)
    read.log = []

    quick = read_archive(PATH, read)
    manifests_read = [path for what, path in read.log if what == "read" and "manifests" in path]
    disk.write_bytes(snapshot(SNAPSHOT_EVERY - 1), b"spoiled")
    slow = read_archive(PATH, disk)

    assert len(manifests_read) == 6
    assert quick == slow
    assert len(quick.files) == SNAPSHOT_EVERY + 5


def test_two_snapshots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "SNAPSHOT_EVERY", 3)
    disk = new_disk()
    history(disk, 13)

    assert [number for number in range(13) if disk.exists(snapshot(number))] == [8, 11]


def test_a_manifest_that_is_missing_is_named() -> None:
    disk = new_disk()
    history(disk, 4)
    disk.unlink(f"{PATH}/manifests/{1:020d}.json")

    with pytest.raises(
        PipelineError, match=r"0001\.json is missing, and there are later manifests"
    ):
        read_archive(PATH, disk)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not a manifest, or half of one"),
        (b'{"checksum":"crc32c:00000000","content":{}}', "is damaged"),
        (encode_manifest(another_manifest()), "is of archive another, and /archive is archive"),
        (encode_manifest(another_manifest(number=7)), "is manifest 7 under another name"),
    ],
)
def test_a_foreign_or_damaged_manifest_is_a_sentence_and_stays(
    content: bytes, sentence: str
) -> None:
    disk = new_disk()
    history(disk, 2)
    name = f"{PATH}/manifests/{2:020d}.json"
    disk.write_bytes(name, content)

    with pytest.raises(PipelineError, match=sentence):
        writer(disk)

    assert disk.read_bytes(name) == content


def test_a_file_of_something_else_among_the_manifests_is_named() -> None:
    disk = new_disk()
    history(disk, 1)
    disk.write_bytes(f"{PATH}/manifests/.nfs0001", b"")
    read_archive(PATH, disk)
    disk.write_bytes(f"{PATH}/manifests/notes.txt", b"")

    with pytest.raises(PipelineError, match=r"notes\.txt is not a manifest of an archive"):
        read_archive(PATH, disk)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda disk: disk.write_bytes(PATH, b""), "/archive is a file"),
        (
            lambda disk: (disk.make_directory(PATH), disk.write_bytes(f"{PATH}/x.csv", b"1")),
            "/archive is not an archive and not empty",
        ),
        (
            lambda disk: (
                disk.make_directory(PATH),
                disk.write_bytes(f"{PATH}/{MARK_NAME}", b"{}"),
            ),
            "kbroker-archive.json is not a manifest, or half of one",
        ),
    ],
)
def test_a_directory_that_is_something_else_stays_as_it_is(make: object, sentence: str) -> None:
    disk = new_disk()
    make(disk)  # type: ignore[operator]
    before = list(disk.files("/"))

    with pytest.raises(PipelineError, match=sentence):
        writer(disk)

    assert list(disk.files("/")) == before


def test_a_directory_that_cannot_be_looked_into_is_a_sentence() -> None:
    inner = new_disk()
    inner.make_directory(PATH)
    disk = FailingFileSystem(inner)
    disk.fail("list", PATH, number=errno.EACCES)

    with pytest.raises(PipelineError, match="/archive cannot be used as archive: list /archive"):
        check_target(PATH, disk)


def test_a_directory_without_an_archive_is_not_read_as_one() -> None:
    disk = new_disk()
    disk.make_directory(PATH)

    with pytest.raises(PipelineError, match=r"has no kbroker-archive\.json") as caught:
        read_archive(PATH, disk)

    assert caught.value.code is ExitCode.USAGE


def test_a_snapshot_keeps_the_ids_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "SNAPSHOT_EVERY", 1)
    disk = new_disk()
    with writer(disk) as hand:
        hand.publish(ArchiveStep(kind="batch", batch=0, topic_ids={"t": "id-1"}))
        with pytest.raises(PipelineError, match="give it another archive"):
            hand.publish(ArchiveStep(kind="batch", batch=1, topic_ids={"t": "id-2"}))

    assert disk.exists(snapshot(0))
    assert read_archive(PATH, disk).topic_ids == {"t": "id-1"}


def test_a_snapshot_keeps_clusters_and_leader_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "SNAPSHOT_EVERY", 2)
    disk = new_disk()
    first, second = (
        EpochNote(topic="t", partition=0, leader_epoch=epoch, end_offset=10 * epoch)
        for epoch in (3, 4)
    )
    with writer(disk) as hand:
        hand.publish(
            ArchiveStep(kind="batch", batch=0, cluster_ids={"t": "one"}, leader_epochs=(first,))
        )
        hand.publish(ArchiveStep(kind="batch", batch=1, leader_epochs=(second,)))

    quick = read_archive(PATH, disk)
    disk.write_bytes(snapshot(1), b"spoiled")

    assert quick == read_archive(PATH, disk)
    assert quick.cluster_ids == {"t": "one"}
    assert quick.leader_epochs == {second.topic_partition: second}


def settings_step(batch: int, settings: dict[str, dict[str, str]], **counts: int) -> ArchiveStep:
    return ArchiveStep(kind="batch", batch=batch, topic_settings=settings, partition_counts=counts)


def test_settings_are_written_when_they_are_new_or_changed() -> None:
    disk = new_disk()
    with writer(disk) as hand:
        said = [
            hand.publish(step)
            for step in (
                settings_step(0, {"t": {"retention.ms": "5"}, "u": {}}, t=2, u=1),
                settings_step(1, {"t": {"retention.ms": "5"}, "u": {}}, t=2, u=1),
                settings_step(2, {"t": {}, "u": {}}, t=2, u=4),
                ArchiveStep(kind="batch", batch=3),
            )
        ]

    assert [(each.topic_settings, each.partition_counts) for each in said] == [
        ({"t": {"retention.ms": "5"}, "u": {}}, {"t": 2, "u": 1}),
        ({}, {}),
        ({"t": {}}, {"u": 4}),
        ({}, {}),
    ]
    state = read_archive(PATH, disk)
    assert state.topic_settings == {"t": {}, "u": {}}
    assert state.partition_counts == {"t": 2, "u": 4}


def test_a_snapshot_keeps_settings_and_knows_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_writer, "SNAPSHOT_EVERY", 1)
    disk = new_disk()
    with writer(disk) as hand:
        hand.publish(settings_step(0, {"t": {"retention.ms": "5"}, "u": {}}, t=2))

    quick = read_archive(PATH, disk)
    disk.write_bytes(snapshot(0), b"spoiled")

    assert quick == read_archive(PATH, disk)
    assert quick.topic_settings == {"t": {"retention.ms": "5"}, "u": {}}
    assert quick.partition_counts == {"t": 2}


def test_a_snapshot_of_a_version_that_kept_no_settings_is_used() -> None:
    disk = new_disk()
    history(disk, SNAPSHOT_EVERY)
    known = msgspec.json.decode(unseal(disk.read_bytes(snapshot(SNAPSHOT_EVERY - 1))))
    del known["topic_settings"], known["partition_counts"]
    content = msgspec.json.encode(known)
    sealed = {"checksum": checksum_of(content), "content": msgspec.Raw(content)}
    disk.write_bytes(snapshot(SNAPSHOT_EVERY - 1), msgspec.json.encode(sealed))
    read = FailingFileSystem(disk)
    read.log = []

    state = read_archive(PATH, read)

    manifests_read = [path for what, path in read.log if what == "read" and "manifests" in path]
    assert manifests_read == [snapshot(SNAPSHOT_EVERY - 1)]
    assert (state.topic_settings, state.partition_counts) == ({}, {})


def test_nothing_gets_a_place_outside_of_the_archive() -> None:
    disk = new_disk()
    two_batches(disk)
    before = [path for path, _ in disk.files("/")]

    with writer(disk) as hand, pytest.raises(PipelineError, match="nothing was written to"):
        publish_batch(hand, disk, 2, ranges=(offsets(0, 5, topic="../../../elsewhere"),))

    assert [path for path, _ in disk.files("/") if "elsewhere" in path] == []
    assert read_archive(PATH, disk).topics() == ["t"]
    assert set(before) <= {path for path, _ in disk.files("/")}
