"""`kbroker pipeline lag` beside the tool of Apache Kafka: the same numbers at rest, and between two
looks when records are written and read.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.clients.every_client import (
    begin_transaction,
    create_topic,
    transactional_producer,
)
from compat_tests.commands.command_line import (
    CANNOT_CONNECT,
    FINE,
    ITEM_FAILED,
    PROGRAM,
    UNUSED,
    USAGE,
    Run,
    run,
)
from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.waiting import until

VERSIONS = (apache_kafka.NEWEST, apache_kafka.ZOOKEEPER_LINE)
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

Key = tuple[str, str, int]  # group, topic, partition
Numbers = tuple[int | None, int, int | None]  # committed, end, lag


def numbers_of_java(bootstrap: str, version: str, *groups: str) -> dict[Key, Numbers]:
    named = [part for group in groups for part in ("--group", group)]
    done = run_tool(TOOL, "--bootstrap-server", bootstrap, "--describe", *named, version=version)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(groups)]
    return {
        (group, topic, int(partition)): (number(committed), int(end), number(lag))
        for group, topic, partition, committed, end, lag, *_ in rows
    }


def number(text: str) -> int | None:
    return None if text == "-" else int(text)


def look(bootstrap: str, *options: str) -> dict[str, Any]:
    done = run("pipeline", "lag", "--output", "json", *options, bootstrap=bootstrap)
    assert done.code == FINE, done.err
    return dict(json.loads(done.out))


def numbers_of_ours(bootstrap: str, *groups: str) -> dict[Key, Numbers]:
    return {
        (row["group"], row["topic"], row["partition"]): (
            row["committed_offset"],
            row["end_offset"],
            row["lag"],
        )
        for row in look(bootstrap, "--groups", ",".join(groups))["groups"]
    }


def numbers_of_describe(bootstrap: str, *groups: str) -> dict[Key, Numbers]:
    done = run("group", "describe", *groups, "--output", "json", bootstrap=bootstrap)
    assert done.code == FINE, done.err
    return {
        (row["group"], row["topic"], row["partition"]): (
            row["committed_offset"],
            row["end_offset"],
            row["lag"],
        )
        for row in json.loads(done.out)
    }


def write(bootstrap: str, topic: str, count: int, partition: int = 0, **options: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for each in range(count):
        producer.produce(topic, value=str(each).encode(), partition=partition, **options)
    assert producer.flush(20) == 0


def commit(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(t, p, o) for (t, p), o in offsets.items()], asynchronous=False
    )
    consumer.close()


@contextmanager
def producing(bootstrap: str, partitions: dict[str, int]) -> Iterator[None]:
    """Some hundred records per second to each topic."""
    stop = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        while not stop.is_set():
            for topic, count in partitions.items():
                for each in range(10):
                    producer.produce(topic, value=b"x" * 50, partition=each % count)
            producer.poll(0)
            time.sleep(0.02)
        producer.flush(10)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def reading(bootstrap: str, group: str, topic: str, every_s: float) -> Iterator[None]:
    """A member that takes 10 records and commits, again and again; it stays when it stops reading,
    until the block ends.
    """
    stop, joined = threading.Event(), threading.Event()

    def read() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        consumer.subscribe([topic])
        while not stop.is_set():
            messages = consumer.consume(10, timeout=0.2)
            if messages and not messages[0].error():
                consumer.commit(asynchronous=False)
                joined.set()
            stop.wait(every_s)
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert joined.wait(30)
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.java
@pytest.mark.timeout(180)
def test_the_numbers_are_those_of_javas_tool_under_load_and_at_rest(
    bootstrap: str, topic: str, group: str
) -> None:
    wide, narrow = f"{topic}-wide", f"{topic}-narrow"
    groups = (f"{group}-slow", f"{group}-quick", f"{group}-simple")
    create_topic(bootstrap, wide, 4)
    create_topic(bootstrap, narrow, 2)
    write(bootstrap, narrow, 50)
    commit(bootstrap, groups[2], {(narrow, 0): 20, (wide, 3): 0})
    # A slow reader may never come to a partition, which then has no row once the member has left.
    commit(bootstrap, groups[0], {(wide, partition): 0 for partition in range(4)})

    under_load = []
    with (
        producing(bootstrap, {wide: 4, narrow: 2}),
        reading(bootstrap, groups[0], wide, 0.2),
        reading(bootstrap, groups[1], narrow, 0.01),
    ):
        for version in VERSIONS:
            before = numbers_of_ours(bootstrap, *groups)
            java = numbers_of_java(bootstrap, version, *groups)
            under_load.append((before, java, numbers_of_ours(bootstrap, *groups)))
    at_rest = [numbers_of_java(bootstrap, version, *groups) for version in VERSIONS]
    ours = numbers_of_ours(bootstrap, *groups)

    for before, java, after in under_load:
        assert len(before) == len(java) == len(after) == 8
        assert all(lies_between(before[key], java[key], after[key]) for key in java), under_load
    assert at_rest == [ours, ours]
    assert numbers_of_describe(bootstrap, *groups) == ours
    assert len(ours) == 8
    assert ours[groups[2], narrow, 0][0] == 20


def lies_between(before: Numbers, java: Numbers, after: Numbers) -> bool:
    """Committed offsets and ends only grow here, so that a look between two is between them."""
    committed = [-1 if numbers[0] is None else numbers[0] for numbers in (before, java, after)]
    ends = [numbers[1] for numbers in (before, java, after)]
    return committed == sorted(committed) and ends == sorted(ends) and ends[0] < ends[2]


def test_rates_sizes_and_the_lag_in_seconds_come_from_records(
    bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)
    now_ms = int(time.time() * 1_000)
    for age_s in (3_000, 200, 120, 60):
        write(bootstrap, topic, 10, timestamp=now_ms - age_s * 1_000)
    commit(bootstrap, group, {(topic, 0): 15})

    found = look(bootstrap, "--topics", topic, "--groups", group)

    (partition,), (row,), (standing,) = found["partitions"], found["groups"], found["standings"]
    assert (partition["start_offset"], partition["end_offset"]) == (0, 40)
    assert partition["records_per_s"] == 30 / 300
    assert partition["size_bytes"] > 40 * 10
    assert (row["lag"], row["lag_s"], row["catch_up_s"]) == (25, 140.0, None)
    assert (standing["lag"], standing["lag_s"], standing["falls_behind"]) == (25, 140.0, None)


def test_a_group_behind_retention_and_one_at_the_end(
    bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 2)
    now_ms = int(time.time() * 1_000)
    for age_s in (600, 300, 60):
        write(bootstrap, topic, 10, timestamp=now_ms - age_s * 1_000)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 15)]).values()
    deleted.result(10)
    commit(bootstrap, f"{group}-behind", {(topic, 0): 5, (topic, 1): 0})
    commit(bootstrap, f"{group}-done", {(topic, 0): 30})

    rows = look(bootstrap, "--groups", f"{group}-behind,{group}-done")["groups"]

    assert [(r["partition"], r["lag"], r["lag_s"]) for r in rows] == [
        (0, 25, 240.0),  # from the first record that is left
        (1, 0, 0.0),
        (0, 0, 0.0),
    ]


def test_where_only_a_marker_is_left_to_read_nobody_is_behind_in_time(
    bootstrap: str, topic: str, group: str
) -> None:
    producer = transactional_producer(bootstrap, topic)
    create_topic(bootstrap, topic, 1)
    begin_transaction(producer, topic, [1])
    producer.commit_transaction(20)
    commit(bootstrap, group, {(topic, 0): 1})

    (row,) = look(bootstrap, "--groups", group)["groups"]

    assert (row["end_offset"], row["lag"], row["lag_s"]) == (2, 1, 0.0)


def test_a_lag_that_an_open_transaction_holds_is_told(
    bootstrap: str, topic: str, group: str
) -> None:
    producer = transactional_producer(bootstrap, topic)
    create_topic(bootstrap, topic, 1)
    begin_transaction(producer, topic, [1])
    unread = run("pipeline", "lag", "--topics", topic, bootstrap=bootstrap)
    commit(bootstrap, group, {(topic, 0): 0})

    held = run("pipeline", "lag", "--groups", group, bootstrap=bootstrap)
    producer.commit_transaction(20)

    said = f"{topic}-0 has an open transaction at offset 0: read_committed waits there"
    assert (held.code, said in held.err) == (FINE, True), held
    assert "open transaction" not in unread.err
    until(lambda: not run("pipeline", "lag", "--groups", group, bootstrap=bootstrap).err)


def test_a_second_look_tells_what_is_consumed_and_who_catches_up(
    bootstrap: str, topic: str, group: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 20_000)  # more than is read while the command runs
    plot = tmp_path / "new" / "lag.svg"

    with reading(bootstrap, group, topic, 0.05):
        done = run(
            "pipeline", "lag", "--groups", group, "--every", "1s", "--looks", "2",
            "--output", "jsonl", "--plot", str(plot), bootstrap=bootstrap,
        )  # fmt: skip

    first, second = (json.loads(line)["standings"][0] for line in done.lines())
    assert (done.code, first["consumed_per_s"], first["members"]) == (FINE, None, 1)
    assert second["lag"] < first["lag"]
    assert second["consumed_per_s"] > 0
    assert second["falls_behind"] is False
    assert 0 < second["catch_up_s"] < 6_000
    assert plot.read_text().lstrip().startswith("<?xml")
    assert f"wrote {plot}" in done.err


def test_a_watch_goes_on_when_the_broker_is_back(own_broker: Callable[..., BrokerProcess]) -> None:
    broker = own_broker()
    command = [*PROGRAM, "pipeline", "lag", "--every", "200ms", "--output", "jsonl"]
    watch = subprocess.Popen(
        [*command, "--bootstrap", broker.bootstrap],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watch.stdout is not None
    assert watch.stderr is not None

    first = json.loads(watch.stdout.readline())
    broker.stop()
    stopped_ms = time.time() * 1_000
    next(line for line in watch.stderr if "is a broker running?" in line)
    broker.start()
    later = next(json.loads(line) for line in watch.stdout if line)
    while later["taken_ms"] < stopped_ms:  # what was printed before it stopped
        later = json.loads(watch.stdout.readline())
    watch.terminate()
    watch.wait()

    assert later["taken_ms"] > first["taken_ms"]


def test_the_table_the_ranking_and_csv(
    kbroker: Run, bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 10)
    commit(bootstrap, f"{group}-a", {(topic, 0): 9})
    commit(bootstrap, f"{group}-b", {(topic, 0): 2})

    table = kbroker("pipeline", "lag", "--topics", topic)
    csv = kbroker("pipeline", "lag", "--topics", topic, "--output", "csv")

    tables = table.out.strip().split("\n\n")
    assert (table.code, len(tables)) == (FINE, 3), table
    assert [line.split()[0] for line in tables[2].splitlines()[1:]] == [f"{group}-b", f"{group}-a"]
    assert [line.split(",")[7:10] for line in csv.lines()[1:]] == [
        [f"{group}-a", "9", "1"],
        [f"{group}-b", "2", "8"],
    ]


def test_a_limit_makes_it_fail_for_automation(
    kbroker: Run, bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 10)
    commit(bootstrap, group, {(topic, 0): 3})

    assert kbroker("pipeline", "lag", "--groups", group, "--max-lag", "7").code == FINE
    beyond = kbroker("pipeline", "lag", "--groups", group, "--max-lag", "6")
    assert beyond.code == ITEM_FAILED
    assert f"{group} lags 7 records in {topic}-0, more than 6" in beyond.err


def test_what_is_not_there_is_told_in_one_sentence(
    kbroker: Run, bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)

    alone = kbroker("pipeline", "lag", "--topics", topic)
    assert (alone.code, alone.err.strip()) == (FINE, "no group has committed offsets here")
    assert "no such topic: nope" in kbroker("pipeline", "lag", "--topics", "nope").refused(
        ITEM_FAILED
    )
    assert f"no such group: {group}" in kbroker("pipeline", "lag", "--groups", group).refused(
        ITEM_FAILED
    )
    assert "is not a duration" in kbroker("pipeline", "lag", "--every", "soon").refused(USAGE)
    assert "does not end in" in kbroker("pipeline", "lag", "--plot", "a.pdf").refused(USAGE)
    unreachable = run("pipeline", "lag", "--bootstrap", UNUSED).refused(CANNOT_CONNECT)
    assert "cannot connect" in unreachable


def test_a_plot_that_cannot_be_written_is_refused_before_the_first_look(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    plot = str(tmp_path / "file" / "lag.svg")
    refused = run("pipeline", "lag", "--plot", plot, "--bootstrap", UNUSED).refused(ITEM_FAILED)

    assert f"cannot write --plot {plot}" in refused
