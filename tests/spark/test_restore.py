"""Restores whose tasks are spread over Spark give back what a directory of Apache Kafka held, in
topics or as a directory.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from compat_tests.clients.every_client import create_topic
from kbroker.client.cluster_links import ClusterLinks
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.restoring.logs.log_restore import LogEncoding, LogRestore
from kbroker.pipeline.restoring.logs.log_task import restore_log
from kbroker.pipeline.restoring.logs.restore_note import RestoreNote, noted_topics
from kbroker.pipeline.restoring.logs.restored_directory import RestoredDirectory
from kbroker.pipeline.restoring.restore_plan import PartitionPlan, RestoreChoice, plan_restore
from kbroker.pipeline.restoring.restore_tasks import run_tasks
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.restore_checkpoint import RestoreCheckpoint
from kbroker.pipeline.restoring.topics.topic_restore import TopicRestore, TopicTargets
from kbroker.pipeline.restoring.topics.topic_task import restore_partition
from kbroker.pipeline.spark_job.spread import OverSpark
from tests.fakes.archives.archived_directory import JOB, archive_directory
from tests.golden import golden_logs
from tests.integration.client_reads import settled_end

Row = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]


def test_all_of_a_directory_comes_back(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "archive")
    archive_directory(str(golden_logs.unpack("3.9.2-unclean", tmp_path / "data")), path)
    state = read_archive(path)
    names = {name: f"{topic}-{name}" for name in state.topics()}
    wish = RestoreChoice(renamed=names)
    plans = plan_restore(state, wish)
    kept = RestoreCheckpoint(tmp_path / "checkpoint")
    targets = TopicTargets(bootstrap=bootstrap)
    restore = TopicRestore(state, plans, wish, targets, kept)

    with closing(ClusterLinks(bootstrap)) as links:
        (tmp_path / "checkpoint").mkdir()
        for missing in restore.prepare(links):
            create_topic(bootstrap, missing.name, missing.partitions, retention_ms="-1")
        restore.claim_topics(links)
        restore.board.clear()
        results = run_tasks(OverSpark(spark), restore_partition, restore.tasks(topic, 2))
        restore.end(links, topic)

    archived = {plan.target: archived_rows(path, plan) for plan in plans}
    assert sum(map(len, archived.values())) == sum(result.rows for result in results) > 900
    for plan in plans:
        found = written_rows(bootstrap, plan)
        runs = OffsetMap(kept.maps, plan.target).runs()
        places = {
            run.source_offset + n: run.target_offset + n for run in runs for n in range(run.records)
        }
        assert {source: found[place] for source, place in places.items()} == archived[plan.target]
        assert len(found) == len(places)


def archived_rows(path: str, plan: PartitionPlan) -> dict[int, Row]:
    found: dict[int, Row] = {}
    for rows in ordered_rows(path, plan.files):
        times = rows.column("timestamp").cast("int64").to_pylist()
        for row, time_us in zip(rows.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            time_ms = -1 if time_us is None else time_us // 1_000
            found[row["offset"]] = row["key"], row["value"], time_ms, headers
    return found


def written_rows(bootstrap: str, plan: PartitionPlan) -> dict[int, Row]:
    settled_end(bootstrap, plan.target)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: dict[int, Row] = {}
    with closing(consumer):
        consumer.assign([TopicPartition(*plan.target, 0)])
        while True:
            message = consumer.poll(20)
            assert message is not None, plan.target
            if message.error():
                return found
            headers = tuple(message.headers() or ())
            time_ms = message.timestamp()[1]
            found[message.offset()] = message.key(), message.value(), time_ms, headers


def test_several_workers_write_one_data_directory(spark: Any, tmp_path: Path) -> None:
    path, data = str(tmp_path / "archive"), tmp_path / "data"
    archive_directory(str(golden_logs.unpack("3.9.2-unclean", tmp_path / "golden")), path)
    state, wish = read_archive(path), RestoreChoice()
    plans = plan_restore(state, wish)
    directory = RestoredDirectory(str(data))
    note = RestoreNote(job_id=JOB, command="kbroker go on", topics=noted_topics(state, plans, {}))
    directory.begin(note)
    board = TaskBoard(tmp_path / "board")
    board.clear()
    restore = LogRestore(
        archive=path, directory=directory, note=note, plans=plans, choice=wish, how=LogEncoding()
    )

    results = run_tasks(OverSpark(spark), restore_log, restore.tasks(str(board.directory), 2))
    assert all(result.is_complete for result in results)
    directory.finish(note, lambda _: None)
    archive_directory(str(data), str(tmp_path / "again"))

    again = read_archive(str(tmp_path / "again"))
    rows = {plan.source: archived_rows(path, plan) for plan in plans}
    assert sum(map(len, rows.values())) > 900
    assert rows == {
        plan.source: archived_rows(again.path, plan) for plan in plan_restore(again, wish)
    } | {place: {} for place, found in rows.items() if not found}
