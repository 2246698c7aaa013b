"""Requests at and beyond the edges of what administration takes: names, counts, assignments,
settings, doubles, nulls, times. Each is put in every version to kbroker and to Apache Kafka.

A question gets a topic name of its own; topics `plain` (three partitions) and `dot.ted` are there, and
a group with offsets of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.integration.admin_answer_questions import answer_questions
from tests.integration.admin_quota_questions import quota_questions
from tests.integration.admin_requests import (
    BAD_NAMES,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    TIMES,
    Question,
    delete_records,
    elect,
    metadata,
    one,
)
from tests.integration.admin_setting_questions import setting_questions
from tests.integration.admin_topic_questions import topic_questions


def questions() -> Iterator[Question]:
    """All of them."""
    yield from topic_questions()
    yield from setting_questions()
    yield from _metadata()
    yield from _records_deleted()
    yield from _elected()
    yield from _others()
    yield from answer_questions()
    yield from quota_questions()


def _metadata() -> Iterator[Question]:
    for what, name in BAD_NAMES.items():
        if what != "internal":
            yield one(f"metadata: {what}", lambda _, name=name: metadata(name))
            yield one(
                f"metadata: creates {what}",
                lambda _, name=name: metadata(name, create_missing=True),
                lambda _, name=name: metadata(name),
            )
    yield one("metadata: a topic twice", lambda _: metadata("plain", "plain"))
    yield one("metadata: a missing one twice", lambda t: metadata(t, t))


def _records_deleted() -> Iterator[Question]:
    for name in ("plain", "no-such", "", "a b"):
        given = [(0, 0), (1, 0), (99, 0), (-1, 0)]
        yield one(
            f"delete records: {name}",
            lambda _, name=name, given=given: delete_records((name, given)),
        )
    yield one("delete records: none", lambda _: delete_records())
    yield one(
        "delete records: a topic twice",
        lambda _: delete_records(("plain", [(0, 0)]), ("plain", [(1, 0)])),
    )
    yield one(
        "delete records: a partition twice", lambda _: delete_records(("plain", [(0, 0), (0, 1)]))
    )
    for offset in (-1, -2, 1, LONG_MAX, LONG_MIN):
        yield one(
            f"delete records: offset {offset}",
            lambda _, offset=offset: delete_records(("plain", [(0, offset)])),
        )


def _elected() -> Iterator[Question]:
    for kind in (0, 1, 2, -1):
        yield one(f"elect: kind {kind}", lambda _, kind=kind: elect(kind, ("plain", [0, 99, -1])))
        yield one(
            f"elect: kind {kind}, unknown", lambda _, kind=kind: elect(kind, ("no-such", [0]))
        )
        yield one(f"elect: kind {kind}, none", lambda _, kind=kind: elect(kind))
        yield one(
            f"elect: kind {kind}, all",
            lambda _, kind=kind: ElectLeadersRequest(election_type=kind, topic_partitions=None),
        )
        yield one(
            f"elect: kind {kind}, twice",
            lambda _, kind=kind: elect(kind, ("plain", [0, 0]), ("plain", [0])),
        )
    for what, ms in TIMES.items():
        yield one(
            f"elect: time {what}",
            lambda _, ms=ms: ElectLeadersRequest(
                topic_partitions=[
                    ElectLeadersRequest.TopicPartitions(topic="plain", partitions=[0])
                ],
                timeout_ms=ms,
            ),
        )


def _others() -> Iterator[Question]:
    for what, topics in {
        "none": [],
        "one": [("plain", [0])],
        "unknown": [("no-such", [0])],
        "unknown partition": [("plain", [99, -1])],
        "twice": [("plain", [0, 0]), ("plain", [0])],
        "no partitions": [("plain", [])],
        "bad name": [("a b", [0])],
    }.items():
        yield one(
            f"log dirs: {what}",
            lambda _, topics=topics: DescribeLogDirsRequest(
                topics=[
                    DescribeLogDirsRequest.DescribableLogDirTopic(topic=n, partitions=p)
                    for n, p in topics
                ]
            ),
        )
    for kind in (0, 2, 3, -1):
        for what, keys in {"one": ["g"], "empty name": [""], "twice": ["g", "g"]}.items():
            yield one(
                f"coordinator: kind {kind}, {what}",
                lambda _, kind=kind, keys=keys: FindCoordinatorRequest(
                    key=keys[0], key_type=kind, coordinator_keys=keys
                ),
            )
    yield one("coordinator: none", lambda _: FindCoordinatorRequest(key="", coordinator_keys=[]))
    for kind in (0, 1, 2, 3, -1):
        yield one(
            f"cluster: end points {kind}",
            lambda _, kind=kind: DescribeClusterRequest(endpoint_type=kind),
        )
    for given in ((-1, -1), (5, 0), (-1, 0), (5, -1), (-2, -2)):
        yield one(
            f"producer id: {given}",
            lambda _, g=given: InitProducerIdRequest(
                transactional_id=None, producer_id=g[0], producer_epoch=g[1]
            ),
        )
    for ms in (0, -1, INT_MAX):
        yield one(
            f"producer id: time {ms}",
            lambda _, ms=ms: InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=ms
            ),
        )
    yield one(
        "producer id: empty transactional id",
        lambda _: InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1),
    )
