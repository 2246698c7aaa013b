"""The topics that the requests are about, the same on every broker: one of several segments, an
empty one, a compacted one, one whose first records were deleted, one to write to.
"""

from __future__ import annotations

import time

from compat_tests.answers.asking import Target
from compat_tests.answers.parts import COMPACTED, EMPTY, FULL, TARGET, TRIMMED
from compat_tests.answers.variations import TEXTS
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import DELETE_RECORDS, WireClient

SEGMENT_BYTES = 1 << 20  # the least that newer brokers take
TOPICS = (FULL, EMPTY, COMPACTED, TRIMMED, TARGET)
_BATCHES = 5  # of three records; three fit into a segment
_VALUE_BYTES = 100_000


def prepare(target: Target) -> None:
    """Make the topics and fill them."""
    client = WireClient(target.bootstrap)
    target.names.own |= {*TOPICS, *TEXTS.values()} - {""}
    full, empty, compacted, trimmed, written = map(target.names.on_broker, TOPICS)
    kept = {"retention.ms": "-1"}  # the times of the records are long ago
    small = {"segment.bytes": str(SEGMENT_BYTES), **kept}
    client.create_topic(full, configs=small)
    client.create_topic(empty)
    client.create_topic(
        compacted,
        configs={"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**63 - 1), **small},
    )
    client.create_topic(trimmed, configs=small)
    client.create_topic(written, configs=kept)
    for topic in (full, compacted, trimmed, written):
        fill(client, topic, 0, _BATCHES)
    client.call(
        DELETE_RECORDS, 1, timeout=10_000,
        topics=[{"name": trimmed, "partitions": [{"partition_index": 0, "offset": 5}]}],
    )  # fmt: skip
    client.close()


def fill(client: WireClient, topic: str, first: int, count: int) -> None:
    """Append batches of three records; the n-th is of the time 1,000 x n."""
    for number in range(first, first + count):
        content = batch(3, _VALUE_BYTES, timestamp_ms=1_000 * number)
        while (answer := client.produce(topic, content)).startswith(("3 ", "6 ")):
            time.sleep(0.05)  # a broker that has just started learns of its topics
        assert answer.startswith("0; "), answer


def go_on(target: Target) -> None:
    """Append to the segments that were begun before a restart, and to a further one."""
    client = WireClient(target.bootstrap)
    for topic in map(target.names.on_broker, (FULL, TRIMMED)):
        client.wait_for_topic(topic)
        fill(client, topic, _BATCHES, 2)
    client.close()
