"""How exactly quotas hold: clients of C send and read as fast as they may, at kbroker and at Apache
Kafka 3.9.2 in the same minutes, and their bytes are counted from second 15 to 75: `python -m
compat_tests.clients.quota_rates`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.raw_connection import RawConnection
from compat_tests.cluster.mixed_quotas import alter
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

RATES = (100_000, 1_000_000, 5_000_000, 20_000_000)  # bytes in a second
FROM_S, UNTIL_S = 15.0, 75.0
RECORD = bytes(1_000)
_FILLED_BYTES = 40_000_000
_MANY = 10_000  # records in a client at once


class Measured(threading.Thread):
    """A client that goes as fast as it may; counts the bytes of a time."""

    def __init__(self, name: str, rate: int, began_s: float) -> None:
        super().__init__(name=name)
        self.rate = rate
        self._began_s = began_s
        self.counted = 0
        self.throttled_ms = 0.0

    def count(self, size: int) -> None:
        """Count bytes that have arrived now."""
        if FROM_S <= time.monotonic() - self._began_s < UNTIL_S:
            self.counted += size

    def is_over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() - self._began_s >= UNTIL_S

    @property
    def share(self) -> float:
        """The rate that was reached, over the one that was allowed."""
        return self.counted / (UNTIL_S - FROM_S) / self.rate

    def noted(self, event: object) -> None:
        """Note that the client says it is throttled."""
        self.throttled_ms = max(self.throttled_ms, 1000 * float(event.throttle_time))  # type: ignore[attr-defined]


class Sender(Measured):
    """A producer."""

    def __init__(self, bootstrap: str, rate: int, began_s: float) -> None:
        super().__init__(f"produce {rate}", rate, began_s)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "client.id": f"produce-{rate}", "linger.ms": 5,
             "batch.size": 16_384, "acks": "1", "queue.buffering.max.messages": _MANY,
             "throttle_cb": self.noted, "log_level": 0}
        )  # fmt: skip
        self._topic = f"sent-{rate}"

    def run(self) -> None:
        def arrived(error: object, _message: object) -> None:
            if error is None:
                self.count(len(RECORD))

        while not self.is_over():
            try:
                self._producer.produce(self._topic, RECORD, on_delivery=arrived, partition=0)
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.05)
        self._producer.purge()


class Reader(Measured):
    """A consumer, that begins again at the end."""

    def __init__(self, bootstrap: str, rate: int, began_s: float) -> None:
        super().__init__(f"consume {rate}", rate, began_s)
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "client.id": f"consume-{rate}", "group.id": "readers",
             "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": False,
             "queued.min.messages": _MANY, "throttle_cb": self.noted, "log_level": 0}
        )  # fmt: skip

    def run(self) -> None:
        first = TopicPartition("filled", 0, 0)
        self._consumer.assign([first])
        while not self.is_over():
            for message in self._consumer.consume(1_000, 0.2):
                if message.error() is None:
                    self.count(len(RECORD))
                else:
                    self._consumer.seek(first)
        self._consumer.close()


def prepare(bootstrap: str) -> None:
    """Make topics, fill the one that is read, and set the quotas of the clients."""
    names = ["filled", *(f"sent-{rate}" for rate in RATES)]
    topics = [NewTopic(name, 1, 1, config={"retention.bytes": "500000000"}) for name in names]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 16_384})
    for _ in range(_FILLED_BYTES // len(RECORD)):
        while True:
            try:
                producer.produce("filled", RECORD, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)
    connection = RawConnection(bootstrap, 60)
    for rate in RATES:
        alter(connection, (("client-id", f"produce-{rate}"),), "producer_byte_rate", float(rate))
        alter(connection, (("client-id", f"consume-{rate}"),), "consumer_byte_rate", float(rate))
    connection.close()


@contextmanager
def brokers(kinds: list[str], folder: Path) -> Iterator[dict[str, str]]:
    """The addresses of brokers by kind."""
    with ExitStack() as running:
        found = {}
        if "apache" in kinds:
            bootstrap, _ = running.enter_context(apache_kafka.broker(apache_kafka.ZOOKEEPER_LINE))
            found["apache"] = bootstrap
        if "kbroker" in kinds:
            broker = BrokerProcess(folder / "kbroker")
            broker.start()
            running.callback(broker.stop)
            found["kbroker"] = broker.bootstrap
        yield found


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table; 1 if kbroker is farther from a quota than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["kbroker", "apache"])
    given = parser.parse_args(argv)
    shares: dict[tuple[str, str], Measured] = {}
    with tempfile.TemporaryDirectory() as folder, brokers(given.kinds, Path(folder)) as found:
        for bootstrap in found.values():
            prepare(bootstrap)
        began_s = time.monotonic()
        for kind, bootstrap in found.items():
            for rate in RATES:
                for client in (Sender(bootstrap, rate, began_s), Reader(bootstrap, rate, began_s)):
                    shares[kind, client.name] = client
                    client.start()
        for client in shares.values():
            client.join()
    failed = 0
    for (kind, name), client in sorted(shares.items()):
        sys.stdout.write(
            f"{kind:8} {name:18} {client.share:7.1%} of the quota, throttled for up to "
            f"{client.throttled_ms:.0f} ms\n"
        )
        beside = shares.get(("apache", name))
        allowed = 0.05 if beside is None else min(0.05, abs(1 - beside.share) + 0.02)
        failed += kind == "kbroker" and abs(1 - client.share) > allowed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
