"""`kbroker pipeline restore` of archives made from rows at hand, without Java."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from compat_tests.commands.command_line import PROGRAM, completed
from compat_tests.running.waiting import until
from kbroker.cli.command_line import cli
from kbroker.model import TopicPartition as Place
from kbroker.pipeline.archiving.kept_groups import KeptGroups, ask_groups
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveStep, ArchiveWriter
from tests.fakes.archives.arrow_records import BASE_MS, record
from tests.fakes.archives.parquet_archive import archive_rows
from tests.fakes.running.forked_broker import Broker
from tests.integration.client_reads import settled_end
from tests.integration.mirrored_clusters import write_transaction

ROWS = [record(offset, key=b"k%d" % (offset % 3)) for offset in range(0, 600, 2)]
ROWS[9]["key"] = b"\xff"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    keeps_all = {"log.retention.ms": -1}  # the rows have a time of their own, and it passes
    looks_often = {"log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 100}
    with Broker(settings={**keeps_all, **looks_often}) as made:
        yield made


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    archive_rows(str(path), ROWS[:200], ROWS[200:])
    return path


def command(broker: Broker, archive: Path, *options: str) -> list[str]:
    checkpoint = archive.parent / "checkpoint"
    return [
        "pipeline", "restore", "--archive", str(archive),
        "--bootstrap", broker.bootstrap, "--checkpoint", str(checkpoint), *options,
    ]  # fmt: skip


def run(broker: Broker, archive: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return completed(command(broker, archive, *options))


def values(broker: Broker, topic: str) -> list[bytes]:
    end = settled_end(broker.bootstrap, Place(topic, 0))
    with closing(
        KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
    ) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning()
        found = []
        while consumer.position(place) < end:
            for records in consumer.poll(500).values():
                found += [each.value for each in records]
    return found


def wanted(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in rows]


def test_an_archive_is_written_into_a_new_topic_once(broker: Broker, archive: Path) -> None:
    first = run(broker, archive, "--rename", "t=once", "--output", "json")
    assert first.returncode == 0, first.stderr
    assert "once: created" in first.stderr
    assert "restore reached the end: 300 rows" in first.stderr
    assert json.loads(first.stdout) == [
        {"topic": "once", "partition": 0, "start_offset": 0, "end_offset": 300, "rows": 300}
    ]

    again = run(broker, archive, "--rename", "t=once")
    assert again.returncode == 0, again.stderr
    assert "restore reached the end: 0 rows" in again.stderr
    more = [record(offset) for offset in range(600, 620)]
    archive_rows(str(archive), more)
    later = run(broker, archive, "--rename", "t=once")
    assert later.returncode == 0, later.stderr

    assert values(broker, "once") == wanted([*ROWS, *more])


def test_a_checkpoint_that_is_older_or_lacks_a_map_writes_nothing_twice(
    broker: Broker, archive: Path
) -> None:
    checkpoint, older = archive.parent / "checkpoint", archive.parent / "older"
    assert run(broker, archive, "--rename", "t=copied").returncode == 0
    shutil.copytree(checkpoint, older)
    more = [record(offset) for offset in range(600, 620)]
    archive_rows(str(archive), more)
    assert run(broker, archive, "--rename", "t=copied").returncode == 0
    checkpoint.rename(archive.parent / "newest")
    older.rename(checkpoint)

    refused = run(broker, archive, "--rename", "t=copied")
    assert refused.returncode == 1
    assert "copied-0 has records up to offset 321, and this restore wrote those" in refused.stderr
    shutil.rmtree(checkpoint)
    (archive.parent / "newest").rename(checkpoint)
    assert run(broker, archive, "--rename", "t=copied").returncode == 0
    archive_rows(str(archive), [record(700)])
    shutil.rmtree(checkpoint / "offsets")
    refused = run(broker, archive, "--rename", "t=copied")
    assert refused.returncode == 1
    assert "copied-0.jsonl has 0 of the 2 transactions that are committed" in refused.stderr

    assert values(broker, "copied") == wanted([*ROWS, *more])


def test_only_what_was_asked_for_is_written(broker: Broker, archive: Path) -> None:
    moment = BASE_MS / 1000 + 0.3
    keys = ("--key", "k1", "--key", os.fsdecode(b"\xff"))
    options = ("--rename", "t=some", *keys, "--to", time_text(moment))
    done = run(broker, archive, *options)

    assert done.returncode == 0, done.stderr
    chosen = [row for row in ROWS if row["key"] in (b"k1", b"\xff") and row["offset"] < 300]
    assert values(broker, "some") == wanted(chosen)


def time_text(moment: float) -> str:
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{round(moment % 1 * 1000):03}"
    )


def test_a_topic_with_records_is_left_alone_unless_it_is_meant(
    broker: Broker, archive: Path, tmp_path: Path
) -> None:
    assert run(broker, archive, "--rename", "t=full").returncode == 0
    other = tmp_path / "other"
    (tmp_path / "checkpoint").rename(other)

    refused = run(broker, archive, "--rename", "t=full")
    assert refused.returncode == 1
    elsewhere = run(broker, archive, "--rename", "t=elsewhere")  # as the sentence says
    assert elsewhere.returncode == 0, elsewhere.stderr
    (tmp_path / "checkpoint").rename(tmp_path / "third")
    assert "topic full has records already, in partition 0 up to offset 30" in refused.stderr
    added = run(broker, archive, "--rename", "t=full", "--append")
    assert added.returncode == 0, added.stderr

    assert values(broker, "full") == wanted([*ROWS, *ROWS])


def test_a_topic_with_aborted_records_only_is_taken(broker: Broker, archive: Path) -> None:
    made = CliRunner().invoke(cli, ["topic", "create", "undone", "--bootstrap", broker.bootstrap])
    assert made.exit_code == 0, made.output
    write_transaction(broker.bootstrap, "undone", "a", "abort")

    done = run(broker, archive, "--rename", "t=undone")
    assert done.returncode == 0, done.stderr
    assert values(broker, "undone") == wanted(ROWS)


def test_a_group_does_not_lose_what_it_had_to_read_before(broker: Broker, archive: Path) -> None:
    assert run(broker, archive, "--rename", "t=behind").returncode == 0
    (archive.parent / "checkpoint").rename(archive.parent / "first")
    groups = {name: {"t": {0: 300}} for name in ("reading", "at-end", "new")}
    with ArchiveWriter(str(archive), "groups") as writer:
        writer.publish(ArchiveStep(kind="groups", batch=0, group_offsets=groups))
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    set_offset(admin, "reading", "behind", 299)
    set_offset(admin, "at-end", "behind", 300)  # before the marker

    added = run(broker, archive, "--rename", "t=behind", "--append")
    assert added.returncode == 1, added.stderr
    assert "offsets of 2 groups moved" in added.stderr
    assert "group reading were not moved: it has still to read behind-0 up to offset 300" in (
        added.stderr
    )
    set_offset(admin, "reading", "behind", 301)
    again = run(broker, archive, "--rename", "t=behind", "--append")
    assert again.returncode == 0, again.stderr

    place = TopicPartition("behind", 0)
    assert {admin.list_group_offsets([name])[name][place].offset for name in groups} == {451}
    admin.close()


def test_groups_go_on_at_the_record_they_would_have_read(broker: Broker, archive: Path) -> None:
    source = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    for name in {"t", "elsewhere"} - set(source.list_topics()):
        source.create_topics([NewTopic(name, 1, 1)])
    for group, offset in (("reader", 301), ("done", 5_000), ("fast", 598), ("busy", 100)):
        set_offset(source, group, "t", offset)
    set_offset(source, "stranger", "elsewhere", 3)
    set_offset(source, "kbroker-rules-errors-1", "t", 9)  # a job counts its steps there
    with ArchiveWriter(str(archive), "groups") as writer:
        assert KeptGroups(partial(ask_groups, broker.bootstrap)).keep(writer) == []
    assert {*writer.state.group_offsets} == {"reader", "done", "fast", "busy"}
    set_offset(source, "fast", "moved", 299, creates=True)
    member = KafkaConsumer(
        "moved", group_id="busy", bootstrap_servers=broker.bootstrap, enable_auto_commit=False
    )
    until(lambda: member.poll(1_000) is not None and bool(member.assignment()), "it is a member")

    first = run(broker, archive, "--rename", "t=moved")
    assert first.returncode == 1, first.stderr
    assert "offsets of 2 groups moved" in first.stderr  # fast stays
    assert "offsets of group busy were not moved: it has members in the target" in first.stderr
    member.close()
    again = run(broker, archive, "--rename", "t=moved")
    assert again.returncode == 0, again.stderr
    assert "offsets of 1 group moved" in again.stderr

    found = {
        group: source.list_group_offsets([group])[group][TopicPartition("moved", 0)].offset
        for group in ("reader", "done", "fast", "busy")
    }
    rows_before = [row["offset"] for row in ROWS].index(302)
    assert found == {"reader": rows_before, "done": 300, "fast": 299, "busy": 50}
    other = ("--checkpoint", str(archive.parent / "other"))
    left = run(broker, archive, "--rename", "t=left", "--no-groups", *other)
    assert left.returncode == 0, left.stderr
    assert TopicPartition("left", 0) not in source.list_group_offsets(["reader"])["reader"]
    source.close()


def set_offset(
    admin: KafkaAdminClient, group: str, topic: str, offset: int, *, creates: bool = False
) -> None:
    if creates:
        admin.create_topics([NewTopic(topic, 1, 1)])
    place = TopicPartition(topic, 0)
    wanted = {place: OffsetAndMetadata(offset, "", -1)}
    # The first group of a broker may be refused while its coordinator loads, which raises nothing.
    until(lambda: admin.alter_group_offsets(group, wanted)[place] is NoError, f"offset of {group}")


def test_a_topic_that_was_deleted_is_not_taken_for_whole(broker: Broker, archive: Path) -> None:
    assert run(broker, archive, "--rename", "t=gone").returncode == 0
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics(["gone"])
    until(lambda: "gone" not in admin.list_topics())

    refused = run(broker, archive, "--rename", "t=gone")
    assert refused.returncode == 1
    assert "topic gone was deleted since the restore began to write into it" in refused.stderr
    admin.create_topics([NewTopic("gone", 1, 1)])
    admin.close()
    refused = run(broker, archive, "--rename", "t=gone")
    assert "topic gone was deleted and created again since the restore began" in refused.stderr


def test_a_topic_that_others_fill_before_the_restore_could_make_it_is_left_alone(
    broker: Broker, archive: Path, tmp_path: Path
) -> None:
    could_not = run(broker, archive, "--rename", "t=theirs", "--setting", "retention.ms=soon")
    assert could_not.returncode == 1
    could_not = run(broker, archive, "--rename", "t=th/irs")  # what made nothing claims nothing
    assert "no topic can be named 'th/irs'" in could_not.stderr
    assert not (tmp_path / "checkpoint").exists()
    assert run(broker, archive, "--rename", "t=theirs").returncode == 0
    (tmp_path / "checkpoint").rename(tmp_path / "other")

    refused = run(broker, archive, "--rename", "t=theirs")
    assert refused.returncode == 1
    assert "topic theirs has records already" in refused.stderr


def test_a_topic_that_others_fill_before_the_first_record_is_left_alone(
    broker: Broker, archive: Path, tmp_path: Path
) -> None:
    could_not = run(broker, archive, "--rename", "t=raced", "--setting", "max.message.bytes=30")
    assert "raced-0 refuses records" in could_not.stderr
    larger = ["raced", "--config", "max.message.bytes=1000000", "--bootstrap", broker.bootstrap]
    altered = CliRunner().invoke(cli, ["topic", "alter", *larger])
    assert altered.exit_code == 0, altered.output
    kept = (tmp_path / "checkpoint").rename(tmp_path / "kept")
    assert run(broker, archive, "--rename", "t=raced", "--append").returncode == 0
    (tmp_path / "checkpoint").rename(tmp_path / "other")
    kept.rename(tmp_path / "checkpoint")

    refused = run(broker, archive, "--rename", "t=raced")
    assert refused.returncode == 1
    assert "raced-0 has records before offset" in refused.stderr
    assert "written since this restore began" in refused.stderr
    assert values(broker, "raced") == wanted(ROWS)


def test_times_are_not_replaced_by_those_of_the_restore(broker: Broker, archive: Path) -> None:
    setting = "message.timestamp.type=LogAppendTime"
    refused = run(broker, archive, "--rename", "t=timed", "--setting", setting)

    assert refused.returncode == 1
    assert "all records would get the time of the restore" in refused.stderr
    assert values(broker, "timed") == []


def test_a_person_is_told_what_the_brokers_will_delete(broker: Broker, archive: Path) -> None:
    short = run(broker, archive, "--rename", "t=short", "--setting", "retention.ms=86400000")

    assert short.returncode == 0, short.stderr
    assert "warning: short has retention.ms=86400000, and gets older records" in short.stderr
    until(lambda: values(broker, "short") == [], "retention came")
    (archive.parent / "checkpoint").rename(archive.parent / "other")
    long = run(broker, archive, "--rename", "t=long")
    assert "warning" not in long.stderr


def test_a_checkpoint_belongs_to_one_wish_and_one_cluster(broker: Broker, archive: Path) -> None:
    assert run(broker, archive, "--rename", "t=own").returncode == 0

    refused = run(broker, archive, "--rename", "t=own", "--key", "k1")
    assert refused.returncode == 1
    assert "belongs to another source" in refused.stderr


def test_a_run_that_is_stopped_goes_on_where_it_was(broker: Broker, archive: Path) -> None:
    begun = archive.parent / "checkpoint" / "offsets" / "slow-0.jsonl"
    slow = command(broker, archive, "--rename", "t=slow", "--max-rate", "1kB")
    with subprocess.Popen([*PROGRAM, *slow], stderr=subprocess.PIPE, text=True) as process:
        until(begun.exists)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    assert "stopping after this transaction" in said
    assert "restore stopped" in said

    done = run(broker, archive, "--rename", "t=slow")
    assert done.returncode == 0, done.stderr
    assert values(broker, "slow") == wanted(ROWS)


def is_writing(archive: Path) -> bool:
    board = archive.parent / "checkpoint" / "board"
    return board.exists() and any(board.iterdir())


def test_a_run_that_is_killed_goes_on_where_it_was(broker: Broker, archive: Path) -> None:
    begun = archive.parent / "checkpoint" / "offsets" / "killed-0.jsonl"
    slow = command(broker, archive, "--rename", "t=killed", "--max-rate", "1kB")
    with subprocess.Popen([*PROGRAM, *slow], stderr=subprocess.PIPE) as process:
        until(begun.exists)
        os.kill(process.pid, signal.SIGKILL)

    done = run(broker, archive, "--rename", "t=killed")
    assert done.returncode == 0, done.stderr
    assert values(broker, "killed") == wanted(ROWS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--topics", "u"), "has no topic u: it has t"),
        (("--rename", "u=t"), "has no topic u: it has t"),
        (("--rename", "t=a", "--rename", "t=b"), "--rename gives t two names, a and b"),
        (("--rename", "t=__consumer_offsets"), "is a topic of the brokers' own"),
        (("--partitions", "0,7"), "has no partition 7 of t: it has 0"),
        (("--from", "2026-11-22", "--to", "2026-11-21"), "--to is not after --from"),
        (("--partitions", "x"), "'x' is not the number of a partition"),
        (("--from", "2026-01-02", "--to", "2026-01-02"), "--to is not after --from"),
        (("--from", "-1d"), "'-1d' is not a date such as"),
        (("--max-rate", "fast"), "'fast' is not a size such as"),
    ],
)
def test_what_cannot_be_is_refused(
    broker: Broker, archive: Path, options: tuple[str, ...], sentence: str
) -> None:
    refused = run(broker, archive, *options)

    assert refused.returncode == 2
    assert sentence in refused.stderr
    assert not (archive.parent / "checkpoint").exists()
