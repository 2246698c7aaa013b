"""Topics with records in them, written before a load begins."""

from __future__ import annotations

import random
import string
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from benchmarks import raw_client
from benchmarks.processes import RunningBroker
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.record.bulk_records import bodies_of_pairs

_AT_ONCE = 5_000
_TEXT_BYTES = 1 << 20


class PlacedRecord(NamedTuple):
    """A record and its partition."""

    partition: int
    key: bytes
    value: bytes


def random_records(count: int, size_bytes: int, partitions: int) -> Iterator[PlacedRecord]:
    """Keys are numbers, values pieces of a random text, partitions take turns."""
    letters = (string.ascii_letters + string.digits + " .").encode()
    text = bytes(random.Random(6).choices(letters, k=_TEXT_BYTES))
    for number in range(count):
        at = number * 7_919 % (_TEXT_BYTES - size_bytes)
        yield PlacedRecord(number % partitions, b"%d" % number, text[at : at + size_bytes])


def fill(
    broker: RunningBroker, topic: str, partitions: int, records: Iterable[PlacedRecord]
) -> None:
    """Write records into a topic, which is made where it is missing, without compression."""
    raw_client.create_topic(broker.address, topic, partitions)
    with closing(ClusterLinks(broker.bootstrap)) as links:
        view = links.ready_topic(topic)
        assert view is not None, "it was made"
        sender = RecordSender(links, view, SendOptions())
        left = iter(records)
        while some := list(islice(left, _AT_ONCE)):
            now_ms = time.time_ns() // 1_000_000
            placed: dict[int, list[PlacedRecord]] = defaultdict(list)
            for record in some:
                placed[record.partition].append(record)
            for partition, found in placed.items():
                bodies = bodies_of_pairs(
                    [each.key for each in found], [each.value for each in found]
                )
                sender.put(partition, bodies, now_ms)
            sender.send_until(lambda: sender.has_room)
        sender.complete(time.time_ns() // 1_000_000)
        sender.send_until(lambda: sender.is_idle)
        if sender.refusal is not None:
            raise RuntimeError(f"{topic} refuses records: {sender.refusal}")
