"""A mirror whose tasks are spread over Spark copies as one in this process does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from compat_tests.clients.every_client import create_topic
from kbroker.client.cluster_links import ClusterLinks
from kbroker.pipeline.mirroring.mirror_checkpoint import MirrorCheckpoint
from kbroker.pipeline.mirroring.mirror_job import MirrorJob
from kbroker.pipeline.mirroring.mirror_task import mirror_partition
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice
from kbroker.pipeline.spark_job.spread import OverSpark
from kbroker.record.default_record import Record
from tests.fakes.running.forked_broker import Broker
from tests.integration.mirrored_clusters import BASE_MS, check_map, contents, write

PARTITIONS = 3


def test_a_round_over_spark_copies_every_record_once(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    for number in range(PARTITIONS):
        records = [Record(0, BASE_MS + at, b"%d" % at, b"value", ()) for at in range(50)]
        write(bootstrap, topic, records, number)
    wish = MirrorChoice(topics=(topic,))

    with (
        Broker() as target,
        closing(ClusterLinks(bootstrap)) as readers,
        closing(ClusterLinks(target.bootstrap)) as writers,
    ):
        job = MirrorJob(readers, writers, wish, MirrorCheckpoint(tmp_path))
        for change in job.topics.changes():
            create_topic(target.bootstrap, change.name, change.partitions)
        job.topics.changed()
        job.board.clear()
        tasks = job.tasks()
        results = OverSpark(spark)(mirror_partition, tasks)
        job.end_round(tasks, results, is_last=True)

        assert [(result.rows, result.refusal) for result in results] == [(50, None)] * PARTITIONS
        numbers = range(PARTITIONS)
        assert contents(target.bootstrap, topic, *numbers) == contents(bootstrap, topic, *numbers)
        assert check_map(bootstrap, target.bootstrap, topic, 2) == 50
        assert job.behind() == {}
