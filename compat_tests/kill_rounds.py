"""A broker that is killed again and again under the load of real clients, and what must be true
afterwards: every acknowledged record at its place, the order of each producer kept, no record of an
idempotent producer twice.

    python -m compat_tests.kill_rounds --rounds 200

Every second kill hits a broker that is still starting, that is, recovering from the one before.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from kafka import KafkaProducer
from kafka.producer.future import RecordMetadata

from compat_tests import apache_kafka
from compat_tests.clients import create_topic
from compat_tests.conftest import BrokerProcess

PARTITIONS = 2
DELIVERY_TIMEOUT_S = 120
NOTHING = -1


class Places:
    """What was acknowledged, or read, at each offset of each partition."""

    def __init__(self) -> None:
        self.values = [array("q") for _ in range(PARTITIONS)]
        self.count = 0

    def value_at(self, partition: int, offset: int) -> int:
        """Return the value at an offset, NOTHING where nothing is."""
        values = self.values[partition]
        return values[offset] if offset < len(values) else NOTHING

    def put(self, partition: int, offset: int, value: int) -> None:
        values = self.values[partition]
        if offset >= len(values):
            values.extend([NOTHING] * (offset + 1 - len(values)))
        assert values[offset] in (NOTHING, value), (partition, offset, values[offset], value)
        values[offset] = value
        self.count += 1


class Acknowledged(Places):
    """What a writer was told of its records. What cannot be true goes to its errors: clients
    swallow what their callbacks raise.
    """

    def __init__(self, errors: list[str]) -> None:
        super().__init__()
        self.longest_silence_s = 0.0  # of any partition, between two records
        self._errors = errors
        self._heard_at_s = [math.inf] * PARTITIONS

    def take(self, partition: int, offset: int, value: int) -> None:
        """A record was acknowledged."""
        now_s = time.monotonic()
        silence_s = now_s - self._heard_at_s[partition]
        self.longest_silence_s = max(self.longest_silence_s, silence_s)
        self._heard_at_s[partition] = now_s
        if offset < 0:  # a duplicate that the broker no longer knows the offset of
            self._errors.append(f"record {value} has the offset {offset} in partition {partition}")
        elif (other := self.value_at(partition, offset)) not in (NOTHING, value):
            self._errors.append(f"records {other} and {value} have the offset {offset}")
        else:
            self.put(partition, offset, value)


class Writer(Protocol):
    """A client that writes rising numbers until it is told to finish."""

    topic: str
    acknowledged: Acknowledged
    errors: list[str]
    is_idempotent: bool

    def finish(self) -> None:
        """Stop, and return when everything sent is acknowledged or refused."""
        ...


class LibrdkafkaWriter:
    """confluent-kafka's idempotent producer."""

    is_idempotent = True

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        self.topic = topic
        self.errors: list[str] = []
        self.acknowledged = Acknowledged(self.errors)
        self._interval_s = 1 / records_per_s
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": DELIVERY_TIMEOUT_S * 1000,
                "socket.timeout.ms": 10_000,  # a broker that sleeps keeps its connections open
                "request.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        begin = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) / self._interval_s)
            while number < due:
                value = str(number).encode()
                try:
                    self._producer.produce(
                        self.topic,
                        value,
                        partition=number % PARTITIONS,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    break
                number += 1
            self._producer.poll(0.01)

    def _delivered(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            value = int(message.value())
            self.acknowledged.take(message.partition(), message.offset(), value)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(10)
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        if left:
            self.errors.append(f"{left} records were never answered")


class KafkaPythonWriter:
    """kafka-python without idempotence, one request in flight: order is kept, a retry may double."""

    is_idempotent = False

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        self.topic = topic
        self.errors: list[str] = []
        self.acknowledged = Acknowledged(self.errors)
        self._interval_s = 1 / records_per_s
        self._stop = threading.Event()
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=self.is_idempotent,
            max_in_flight_requests_per_connection=1,
            linger_ms=5,
            reconnect_backoff_max_ms=200,
            delivery_timeout_ms=DELIVERY_TIMEOUT_S * 1000,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        begin = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) / self._interval_s)
            while number < due and not self._stop.is_set():
                self._send(number)
                number += 1
            time.sleep(0.01)

    def _send(self, number: int) -> None:
        def delivered(metadata: RecordMetadata) -> None:
            self.acknowledged.take(metadata.partition, metadata.offset, number)

        future = self._producer.send(
            self.topic, str(number).encode(), partition=number % PARTITIONS
        )
        future.add_callback(delivered)
        future.add_errback(lambda error: self.errors.append(repr(error)))

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.flush(DELIVERY_TIMEOUT_S)
        self._producer.close(10)


class IdempotentKafkaPythonWriter(KafkaPythonWriter):
    """kafka-python as it is by default: a retry doubles nothing."""

    is_idempotent = True


class JavaWriter:
    """Apache Kafka's VerifiableProducer, idempotent as the Java producer is by default."""

    is_idempotent = True

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        self.topic = topic
        self.errors: list[str] = []
        self.acknowledged = Acknowledged(self.errors)
        with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as settings:
            settings.write(f"delivery.timeout.ms={DELIVERY_TIMEOUT_S * 1000}\n")
            settings.write("enable.idempotence=true\nretries=2147483647\n")
            settings.write("reconnect.backoff.max.ms=200\n")
        self._settings = Path(settings.name)
        command = apache_kafka.java_command(
            "org.apache.kafka.tools.VerifiableProducer",
            "--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1",
            "--throughput", str(records_per_s), "--producer.config", settings.name,
        )  # fmt: skip
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("name") == "producer_send_success":
                self.acknowledged.take(event["partition"], event["offset"], int(event["value"]))
            elif event.get("name") == "producer_send_error":
                self.errors.append(event["message"])

    def finish(self) -> None:
        self._process.terminate()  # it sends what it has and says so before it ends
        self._thread.join(DELIVERY_TIMEOUT_S)
        self._process.wait(DELIVERY_TIMEOUT_S)
        self._settings.unlink()


def kill(broker: BrokerProcess) -> None:
    """SIGKILL, and wait until the process is gone."""
    assert broker.process is not None
    broker.process.kill()
    broker.process.wait(10)
    assert broker.process.stdout is not None
    broker.process.stdout.close()


def read_all(bootstrap: str, topic: str) -> Places:
    """Everything in a topic."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
         "check.crcs": True, "log_level": 0}
    )  # fmt: skip
    partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    wanted = sum(consumer.get_watermark_offsets(partition)[1] for partition in partitions)
    consumer.assign(partitions)
    found = Places()
    deadline = time.monotonic() + 40 + wanted / 20_000
    while found.count < wanted and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=0.5):
            assert message.error() is None
            found.put(message.partition(), message.offset(), int(message.value()))
    consumer.close()
    assert found.count == wanted, f"{found.count} of {wanted} records of {topic} could be read"
    return found


def check(writer: Writer, found: Places) -> None:
    """AssertionError unless all that was acknowledged is there, in order, and not doubled."""
    assert writer.errors == [], (writer.topic, writer.errors[:3])
    for partition in range(PARTITIONS):
        acknowledged, read = writer.acknowledged.values[partition], found.values[partition]
        lost = [
            (offset, value)
            for offset, value in enumerate(acknowledged)
            if value != NOTHING and (offset >= len(read) or read[offset] != value)
        ]
        assert not lost, f"{writer.topic}-{partition} lost {len(lost)}, first {lost[:3]}"
        order = list(read)
        if not writer.is_idempotent:
            order = list(dict.fromkeys(order))
        assert all(a < b for a, b in pairwise(order)), writer.topic


def make_writers(bootstrap: str, records_per_s: int, names: list[str]) -> list[Writer]:
    """One writer of each kind named, each with a topic of its own."""
    kinds = {"librdkafka": LibrdkafkaWriter, "kafka-python": KafkaPythonWriter, "java": JavaWriter}
    writers: list[Writer] = []
    for name in names:
        topic = f"kill-{name}"
        create_topic(bootstrap, topic, PARTITIONS)
        writers.append(kinds[name](bootstrap, topic, records_per_s))
    return writers


def kill_and_start(broker: BrokerProcess, draw: random.Random, *, while_starting: bool) -> None:
    """One round: kill, once more while it starts if asked for, and start for good."""
    kill(broker)
    if while_starting:
        broker.launch()
        time.sleep(draw.uniform(0.05, 0.5))
        kill(broker)
    broker.start()


def run(rounds: int, records_per_s: int, seed: int, names: list[str]) -> None:
    """The long form, with a line every ten rounds."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as directory:
        options = ("--override", "log.segment.bytes=4194304", "--override",
                   "log.flush.offset.checkpoint.interval.ms=2000")  # fmt: skip
        broker = BrokerProcess(Path(directory) / "data", options)
        broker.start()
        writers = make_writers(broker.bootstrap, records_per_s, names)
        idle_rounds = acknowledged = 0
        for number in range(rounds):
            time.sleep(draw.uniform(0.3, 1.5))
            before, acknowledged = acknowledged, sum(w.acknowledged.count for w in writers)
            idle_rounds += acknowledged == before
            kill_and_start(broker, draw, while_starting=number % 2 == 1)
            if number % 10 == 9:
                print(f"{number + 1} rounds, {acknowledged:,} acknowledged", flush=True)
        for writer in writers:
            writer.finish()
        for writer in writers:
            check(writer, read_all(broker.bootstrap, writer.topic))
        total = sum(writer.acknowledged.count for writer in writers)
        assert "Traceback" not in broker.log_text()
        assert broker.stop() == 0
        print(
            f"{rounds} rounds ({rounds + rounds // 2} kills, {idle_rounds} without load), "
            f"{total:,} acknowledged, 0 lost, order kept, 0 doubled by "
            f"{', '.join(w.topic for w in writers if w.is_idempotent)}"
        )


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--records-per-s", type=int, default=3_000, help="of each client")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default="librdkafka,kafka-python,java")
    options = parser.parse_args()
    with suppress(KeyboardInterrupt):
        run(options.rounds, options.records_per_s, options.seed, options.clients.split(","))
        return
    sys.exit(130)


if __name__ == "__main__":
    main()
