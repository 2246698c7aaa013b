"""`kbroker start --adopt` over every log directory that Apache Kafka left, read back with a real
client: topics and their ids, offsets, every record, groups and their committed offsets.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka.admin import KafkaAdminClient

from compat_tests.wire.wire_client import WireClient, code
from tests.faults.running_broker import RunningBroker
from tests.golden import golden_logs

TIMESTAMP_TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}
ISOLATION = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}
TIMEOUT_S = 10.0
CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69
LIVE = "g-848-live"  # has a member that was there when the broker ended


class Adopted:
    """A broker over an adopted copy of a golden directory, and what was expected of it."""

    def __init__(self, name: str, broker: RunningBroker) -> None:
        self.name = name
        self.broker = broker
        self.bootstrap = f"127.0.0.1:{broker.port}"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.rows = golden_logs.lines(name, "expected")

    def expected(self, kind: str) -> list[dict[str, Any]]:
        """The expected rows of one kind."""
        return [row for row in self.rows if row["kind"] == kind]


@pytest.fixture(scope="module", params=golden_logs.IMAGES)
def adopted(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Adopted]:
    data = golden_logs.unpack(request.param, tmp_path_factory.mktemp("adopted") / "data")
    # All is as it was written: nothing is compacted, and nobody looks for old records.
    left = ("--override=log.cleaner.enable=false", "--override=log.initial.task.delay.ms=86400000")
    broker = RunningBroker(data, "--adopt", *left).start()
    try:
        yield Adopted(request.param, broker)
    finally:
        broker.end()


def test_topics_have_their_names_ids_and_partitions(adopted: Adopted) -> None:
    names = [row["topic"] for row in adopted.expected("topic")]

    answers = adopted.admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S)

    found = {
        (name, _url_safe(str(answer.result().topic_id)), len(answer.result().partitions))
        for name, answer in answers.items()
    }
    assert found == {
        (r["topic"], r["topic_id"], r["partitions"]) for r in adopted.expected("topic")
    }
    assert set(adopted.admin.list_topics(timeout=TIMEOUT_S).topics) == set(names)


def test_a_member_of_a_consumer_group_goes_on_in_its_epoch(adopted: Adopted) -> None:
    if adopted.name != "4.3.1-clean":
        return  # no such group, or no metadata with the level that serves it
    with closing(WireClient(adopted.bootstrap)) as wire:
        wire.wait_for_coordinator(LIVE)
        described = wire.call(CONSUMER_GROUP_DESCRIBE, 0, group_ids=[LIVE])
        (group,) = described.groups
        (member,) = group.members
        owned = member.assignment.topic_partitions
        again = wire.call(
            CONSUMER_GROUP_HEARTBEAT,
            0,
            group_id=LIVE,
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            topic_partitions=[
                {"topic_id": each.topic_id, "partitions": list(each.partitions)} for each in owned
            ],
        )

    assert (code(group.error_code), group.group_state, group.group_epoch) == ("0", "Stable", 2)
    assert [(each.topic_name, sorted(each.partitions)) for each in owned] == [("plain", [0, 1])]
    assert (code(again.error_code), again.member_id, again.member_epoch) == (
        "0",
        member.member_id,
        2,
    )
    assert again.assignment is None, "it has what it is to have"


@pytest.mark.parametrize("isolation", ISOLATION)
def test_logs_begin_and_end_where_they_did(adopted: Adopted, isolation: str) -> None:
    rows = [row for row in adopted.expected("offsets") if row["isolation"] == isolation]
    partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]

    starts = _offsets(adopted.admin, partitions, OffsetSpec.earliest(), isolation)
    ends = _offsets(adopted.admin, partitions, OffsetSpec.latest(), isolation)

    expected = {(row["topic"], row["partition"]): (row["start"], row["end"]) for row in rows}
    assert {tp: (starts[tp], ends[tp]) for tp in starts} == expected


@pytest.mark.parametrize("isolation", ISOLATION)
def test_every_record_is_there_and_no_other(adopted: Adopted, isolation: str) -> None:
    rows = [row for row in adopted.expected("record") if row["isolation"] == isolation]
    offsets = [row for row in adopted.expected("offsets") if row["isolation"] == isolation]
    read = {row["topic"] for row in rows}
    starts = {(r["topic"], r["partition"]): r["start"] for r in offsets if r["topic"] in read}

    found = _records(adopted.bootstrap, starts, isolation)

    expected = [{k: v for k, v in row.items() if k not in ("kind", "isolation")} for row in rows]
    assert sorted(found, key=_place) == sorted(expected, key=_place)


def test_groups_are_there_with_their_committed_offsets(adopted: Adopted) -> None:
    groups = sorted({row["group"] for row in adopted.expected("group")})

    found = adopted.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
    committed = _committed(adopted.bootstrap, groups) if groups else []

    assert {group.group_id for group in found.valid} == set(groups)
    assert sorted(committed) == sorted(
        (r["group"], r["topic"], r["partition"], r["offset"], r["leader_epoch"], r["metadata"])
        for r in adopted.expected("committed")
    )


def _url_safe(topic_id: str) -> str:
    """Kafka's text of an id; this client prints plain base64."""
    return topic_id.replace("+", "-").replace("/", "_")


def _offsets(
    admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec, isolation: str
) -> dict[tuple[str, int], int]:
    asked = admin.list_offsets(
        dict.fromkeys(partitions, spec),
        isolation_level=ISOLATION[isolation],
        request_timeout=TIMEOUT_S,
    )
    return {(tp.topic, tp.partition): answer.result().offset for tp, answer in asked.items()}


def _committed(bootstrap: str, groups: list[str]) -> list[tuple[object, ...]]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return [
            (group, *partition, known.offset, _epoch(known.leader_epoch), known.metadata)
            for group, offsets in client.list_group_offsets(groups).items()
            for partition, known in offsets.items()
        ]
    finally:
        client.close()


def _epoch(leader_epoch: int | None) -> int | None:
    return leader_epoch if leader_epoch is not None and leader_epoch >= 0 else None


def _records(
    bootstrap: str, starts: dict[tuple[str, int], int], isolation: str
) -> list[dict[str, Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(*place, start) for place, start in starts.items()])
    found = []
    unfinished = set(starts)
    try:
        while unfinished:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing more of {sorted(unfinished)}"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unfinished.discard((message.topic(), message.partition()))
                continue
            found.append(_row(message))
    finally:
        consumer.close()
    return found


def _row(message: Any) -> dict[str, Any]:
    kind, timestamp = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else -1,
        "timestamp_type": TIMESTAMP_TYPES[kind],
        "leader_epoch": _epoch(message.leader_epoch()),
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [[key, _text(value)] for key, value in message.headers() or ()],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]
