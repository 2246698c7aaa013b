"""A data directory that a restore has made, opened by Apache Kafka 3.9.2 and 4.3.1: both serve each
record once, at its offset, and call nothing damaged.

    python -m compat_tests.pipeline.restore_rounds --records 10000000 --keep restored
    python -m tests.integration.restored_in_apache restored --records 10000000

They open copies; the directory stays as it is.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.pipeline.hunt_home import hunt_home
from compat_tests.pipeline.plan_writer import TOPIC_CONFIG
from compat_tests.pipeline.planned_records import TOPICS, RecordPlan
from compat_tests.pipeline.restore_rounds import check_partition, plan_of
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from tests.integration.apache_kraft import KraftCluster
from tests.integration.apache_tree import write_tree

_SETTINGS = dict.fromkeys(TOPICS, TOPIC_CONFIG)


def check(directory: Path, plan: RecordPlan, home: Path) -> None:
    """AssertionError with the first thing that one of them sees otherwise."""
    for opened in (_with_zookeeper, _with_kraft):
        with opened(directory, home) as broker:
            broker.start()
            try:
                for topic, number in plan.partitions():
                    check_partition(broker.bootstrap, plan, topic, number)
            finally:
                broker.stop()
            assert broker.complaints() == [], broker.complaints()[:20]
            print(
                f"{broker.version}: {plan.records:,} records, each once, at its offset", flush=True
            )
        shutil.rmtree(broker.data)


@contextmanager
def _with_zookeeper(directory: Path, home: Path) -> Iterator[ApacheBroker]:
    copy = shutil.copytree(directory, home / "zookeeper")
    connect = fresh_chroot()
    write_tree(connect, copy, _SETTINGS)
    yield ApacheBroker(copy, connect, settings={"broker.id": "0"})  # as a restore says


@contextmanager
def _with_kraft(directory: Path, home: Path) -> Iterator[ApacheBroker]:
    cluster = KraftCluster(directory, home / "kraft", _SETTINGS)
    cluster.place(directory)
    yield cluster.broker


def main() -> None:
    """Parse the options and look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with hunt_home("restored-in-apache") as home:
        check(options.directory, plan_of(options.seed, options.records), home)


if __name__ == "__main__":
    main()
