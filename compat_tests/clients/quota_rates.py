"""How exactly quotas hold: clients of C, Java and Python, one kind of them after the other, send and
read as fast as they may, at kbroker and at Apache Kafka 3.9.2 in the same minutes, and their bytes
are counted from second 15 to 75: `python -m compat_tests.clients.quota_rates`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.quota_clients import (
    FAMILIES,
    FILLED,
    FILLED_LARGE,
    LARGE_RECORD,
    RECORD,
    Measured,
)
from compat_tests.clients.raw_connection import RawConnection
from compat_tests.cluster.mixed_quotas import alter
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

RATES = (100_000, 1_000_000, 5_000_000, 20_000_000)  # bytes in a second
_FILLED_BYTES = 40_000_000


def prepare(bootstrap: str) -> None:
    """Make topics, fill those that are read, and set the quotas of the clients."""
    names = [FILLED, FILLED_LARGE, *(f"sent-{rate}" for rate in RATES)]
    topics = [NewTopic(name, 1, 1, config={"retention.bytes": "500000000"}) for name in names]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(30)
    fill(bootstrap, FILLED, RECORD)
    fill(bootstrap, FILLED_LARGE, LARGE_RECORD)
    connection = RawConnection(bootstrap, 60)
    for rate in RATES:
        alter(connection, (("client-id", f"produce-{rate}"),), "producer_byte_rate", float(rate))
        alter(connection, (("client-id", f"consume-{rate}"),), "consumer_byte_rate", float(rate))
    connection.close()


def fill(bootstrap: str, topic: str, record: bytes) -> None:
    """Write so many records."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 16_384})
    for _ in range(_FILLED_BYTES // len(record)):
        while True:
            try:
                producer.produce(topic, record, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)


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


def measured(
    found: dict[str, str], family: str, rates: tuple[int, ...]
) -> dict[tuple[str, str], Measured]:
    """Let clients of one family go at all brokers at once."""
    began_s = time.monotonic()
    clients = {
        (kind, client.name): client
        for kind, bootstrap in found.items()
        for client in FAMILIES[family](bootstrap, rates, began_s)
    }
    for client in clients.values():
        client.start()
    for client in clients.values():
        client.join()
    return clients


def failures(family: str, clients: dict[tuple[str, str], Measured]) -> int:
    """Print a line for each client; returns how many at kbroker are farther from their quota than
    they may be.
    """
    failed = 0
    for (kind, name), client in sorted(clients.items()):
        pause = (
            "" if client.throttled_ms is None else f", throttled for {client.throttled_ms:.0f} ms"
        )
        sys.stdout.write(f"{family:8} {kind:8} {name:18} {client.share:7.1%} of the quota{pause}\n")
        beside = clients.get(("apache", name))
        allowed = 0.05 if beside is None else min(0.05, abs(1 - beside.share) + 0.02)
        failed += kind == "kbroker" and abs(1 - client.share) > allowed
    return failed


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table; 1 if kbroker is farther from a quota than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["kbroker", "apache"])
    parser.add_argument("--clients", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--rates", nargs="+", type=int, default=RATES, choices=RATES)
    given = parser.parse_args(argv)
    failed = 0
    with tempfile.TemporaryDirectory() as folder, brokers(given.kinds, Path(folder)) as found:
        for bootstrap in found.values():
            prepare(bootstrap)
        for family in given.clients:
            failed += failures(family, measured(found, family, tuple(given.rates)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
