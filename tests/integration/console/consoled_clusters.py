"""Clusters with a console, of kbroker and of Apache Kafka, and what stands in them: something of
everything that a page can show.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, Producer

from compat_tests.clients.hanging_transactions import UNVERIFIED, hang
from compat_tests.running import apache_kafka
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.forked_kbroker import ForkedKbroker
from compat_tests.running.prerequisites import require_program
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import WireClient
from tests.fakes.running.forked_broker import Broker

HOSTILE: Final = "<b>&amp;\x1b[31m\u202eme"
LONG_TOPIC: Final = "a-topic-with-a-very-long-name." + "and-so-on." * 15
_SETTINGS: Final = dict([UNVERIFIED.split("=")])
_ORDERS: Final = ("Ada", 12.5), ("Grace", 99), ("Edsger", 7.25), ("Barbara", 41)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoledCluster:
    """The address of a console, without a slash at its end, and that of its cluster's broker."""

    url: str
    bootstrap: str
    is_ours: bool = False

    def call(self, path: str, value: Any = None) -> Any:
        """Ask the JSON API, or send it a value."""
        body = None if value is None else json.dumps(value).encode()
        headers = {"content-type": "application/json"}
        try:
            with urlopen(Request(f"{self.url}/api/v1/{path}", body, headers)) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error

    def make_topic(self, name: str) -> None:
        self.call("topics", {"name": name, "partitions": 3})

    def make_group(self, name: str) -> None:
        """Give a group offsets of orders, as soon as the cluster has a coordinator for it."""
        until(lambda: self._has_reset(name), f"the offsets of {name} are reset")

    def _has_reset(self, name: str) -> bool:
        body = {"to": "earliest", "topics": {"orders": []}, "confirmed": True}
        try:
            self.call(f"groups/{name}/reset", body)
        except AssertionError:
            return False
        return True

    def produce(self, value: str, key: str | None = None) -> None:
        """Write a message to partition 0 of orders."""
        form = {"key_form": "null"} if key is None else {"key": key, "key_form": "text"}
        fields = {**form, "value": value, "value_form": "text", "partition": "0"}
        with urlopen(f"{self.url}/topics/orders/produce", urlencode(fields).encode()) as answer:
            assert answer.url.startswith(f"{self.url}/topics/orders/messages/0/")

    def places(self) -> Mapping[str, str]:
        """Return what stands for the names in the pattern of a route."""
        broker = self.call("overview")["brokers"][0]["broker_id"]
        return {
            "topic": "orders",
            "partition": "0",
            "offset": "0",
            "group": "readers",
            "id": "payments",
            "broker": str(broker),
        }


@contextmanager
def kbroker() -> Iterator[ConsoledCluster]:
    """A broker of ours, with its own console."""
    http = f"127.0.0.1:{free_port()}"
    with Broker(settings={"kbroker.http.listeners": http, **_SETTINGS}) as broker:
        url = f"http://{http}"
        yield ConsoledCluster(url=url, bootstrap=broker.bootstrap, is_ours=True)


@contextmanager
def apache() -> Iterator[ConsoledCluster]:
    """A broker of Apache Kafka's newest release, with a console from the command line."""
    require_program("java", "install a Java runtime")
    with apache_kafka.broker(settings=_SETTINGS) as (address, _):
        command = ("console", "--bootstrap", address, "--listen", "127.0.0.1:0")
        with ForkedKbroker(*command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("console at ").strip().rstrip("/")
            yield ConsoledCluster(url=url, bootstrap=address)
            process.terminate()


def fill(cluster: ConsoledCluster) -> None:
    """Make topics, orders in one of them, a group, and a transaction that is open."""
    for name in ("orders", "payments", "shipments"):
        cluster.make_topic(name)
    for number, (customer, price) in enumerate(_ORDERS, 1):
        cluster.produce(json.dumps({"order": number, "price": price}), key=customer)
    cluster.make_group("readers")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "payments"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("payments", b'{"order": 2, "paid": 99}')
    producer.flush()


@contextmanager
def hostile_things(cluster: ConsoledCluster) -> Iterator[None]:
    """Add a very long name, a message with markup and control characters, a client whose name has
    them too, in a group, and a transaction that hangs, while the block lasts.
    """
    cluster.make_topic(LONG_TOPIC)
    cluster.produce(HOSTILE + "x" * 500, key=HOSTILE)
    with closing(WireClient(cluster.bootstrap)) as wire:
        hang(wire, "shipments", 4711, 0)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "team", "client.id": HOSTILE}
    )
    consumer.subscribe(["orders"])
    with closing(consumer):
        while not consumer.assignment():
            consumer.poll(0.1)
        yield
