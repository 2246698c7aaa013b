"""Kafka Streams and Spring for Apache Kafka: programs that are stopped and killed go on where they
were.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.java_worker import KAFKA_VERSIONS, LOGGER, program_command
from compat_tests.frameworks.lines import TopicReader, lag, lines, write
from compat_tests.frameworks.story import TEST_TIMEOUT_S, RunWorker
from compat_tests.frameworks.streams_rounds import run as run_streams
from compat_tests.running.prerequisites import maven_jars
from compat_tests.running.waiting import until

SPRING = "4.1.2"
pytestmark = [pytest.mark.java, pytest.mark.timeout(TEST_TIMEOUT_S)]


def counts(values: list[str]) -> list[str]:
    """Return the last count that WordCount gives for each word."""
    words = Counter(word for line in values for word in line.split())
    return [f"{word}={count}" for word, count in words.items()]


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_kafka_streams_counts_every_word_once(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path, version: str
) -> None:
    jars = maven_jars(
        f"kafka-streams-{version}", f"org.apache.kafka:kafka-streams:{version}",
        f"{LOGGER}:1.7.36",
    )  # fmt: skip
    at, sink, state = broker.bootstrap, f"{topic}-counts", tmp_path / "state"
    create_topic(at, topic, 3)
    create_topic(at, sink, 1)
    command = program_command("WordCount", jars, tmp_path, at, topic, sink, topic, str(state))
    reader = TopicReader(at, sink)
    write(at, topic, lines(0, 100))

    worker = run_worker(command)
    reader.until(counts(lines(0, 100)))
    worker.stop()
    write(at, topic, lines(100, 100))
    shutil.rmtree(state)  # it has the counts from the changelog then
    worker.start()
    seen = reader.until(counts(lines(0, 200)))

    assert seen["line=201"] == 0
    broker.stop()
    broker.start()
    worker.kill()
    write(at, topic, lines(200, 100))
    worker.start()
    reader.until(counts(lines(200, 100)))
    until(lambda: lag(at, topic, topic) == 0, "all is committed")
    worker.stop()
    reader.close()


def test_kafka_streams_counts_and_joins_exactly_once(target: str, tmp_path: Path) -> None:
    if target != "kbroker":
        pytest.skip("kills a broker of its own")

    assert run_streams(tmp_path, 2).startswith("1 kills of the program and 1 of the broker: ")


def test_spring_listeners_answer_every_line(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path
) -> None:
    jars = maven_jars(
        f"spring-kafka-{SPRING}", f"org.springframework.kafka:spring-kafka:{SPRING}",
        f"{LOGGER}:1.7.36",
    )  # fmt: skip
    at, sink = broker.bootstrap, f"{topic}-upper"
    properties = {"bootstrap": at, "source": topic, "sink": sink, "group": topic}
    reader, failed = TopicReader(at, sink), TopicReader(at, f"{topic}-dlt")

    worker = run_worker(program_command("SpringLines", jars, tmp_path, properties=properties))
    until(lambda: reader.partitions() == 3, "the program has made its topics")
    write(at, topic, [*lines(0, 100), "bad line"])
    reader.until(line.upper() for line in lines(0, 100))
    failed.until(["bad line"])
    worker.stop()
    write(at, topic, lines(100, 100))
    worker.start()
    reader.until(line.upper() for line in lines(0, 200))
    worker.kill()
    broker.stop()
    broker.start()
    write(at, topic, lines(200, 100))
    worker.start()
    seen = reader.until(line.upper() for line in lines(0, 300))

    assert {seen[line.upper()] for line in lines(0, 100)} == {1}
    until(lambda: lag(at, topic, topic) == 0, "all is committed")
    worker.stop()
    assert failed.seen == {"bad line": 1}
