"""CreateTopics, DeleteTopics and CreatePartitions: names, counts, settings, assignments."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    REFUSED,
    WireClient,
    code,
    fetched,
)

Either = Callable[[str, str], str]

ANY_CHARACTERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
UNKNOWN_TOPIC = "3 UNKNOWN_TOPIC_OR_PARTITION"
INVALID_CONFIG, INVALID_ASSIGNMENT = "40 INVALID_CONFIG", "39 INVALID_REPLICA_ASSIGNMENT"


def invalid_name(reason: str) -> str:
    return f"17 INVALID_TOPIC_EXCEPTION (Topic name is invalid: {reason})"


def delete(wire: WireClient, *names: str, version: int = 5) -> list[str]:
    answer = wire.call(DELETE_TOPICS, version, topic_names=names, timeout=10_000)
    return [code(r.error_code, getattr(r, "error_message", None)) for r in answer.responses]


def create_partitions(wire: WireClient, topic: str, count: int, *brokers: int) -> str:
    assignments = [{"broker_ids": [broker]} for broker in brokers] or None
    wanted = {"name": topic, "count": count, "assignments": assignments}
    answer = wire.call(CREATE_PARTITIONS, 1, topics=[wanted], timeout=10_000)
    return code(answer.results[0].error_code, answer.results[0].error_message)


@pytest.mark.row(175, 176, 177, 178, 179, 181, 182)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a b", f"'a b' {ANY_CHARACTERS}"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("", "the empty string is not allowed"),
        ("X" * 250, f"the length of '{'X' * 250}' is longer than the max allowed length 249"),
        ("a/b", f"'a/b' {ANY_CHARACTERS}"),
        ("é", f"'é' {ANY_CHARACTERS}"),
    ],
    ids=["space", "dot", "two dots", "empty", "too long", "slash", "not ASCII"],
)
def test_a_name_that_cannot_be_a_directory_is_refused(
    wire: WireClient, name: str, reason: str
) -> None:
    assert wire.create_topics({"name": name}) == [invalid_name(reason)]


@pytest.mark.row(180)
def test_a_name_may_have_249_characters(wire: WireClient, topic: str) -> None:
    assert wire.create_topics({"name": topic.ljust(249, "X")}) == ["0"]


@pytest.mark.row(183)
def test_names_that_differ_in_dot_and_underscore_only_collide(
    wire: WireClient, topic: str, either: Either
) -> None:
    dotted, underscored = f"a.b-{topic}", f"a_b-{topic}"
    assert wire.create_topics({"name": dotted}) == ["0"]
    topics = either("topics", "topic")
    assert wire.create_topics({"name": underscored}) == [
        f"17 INVALID_TOPIC_EXCEPTION (Topic '{underscored}' collides with existing {topics}: {dotted})"
    ]


@pytest.mark.row(184)
def test_an_existing_topic_is_not_created_again(wire: WireClient, topic: str) -> None:
    assert wire.create_topics({"name": topic}) == ["0"]
    again = wire.create_topics({"name": topic})
    assert again == [f"36 TOPIC_ALREADY_EXISTS (Topic '{topic}' already exists.)"]


@pytest.mark.row(185)
@pytest.mark.parametrize(
    ("factor", "kbroker", "kafka"),
    [
        (
            3,
            "Replication factor: 3 larger than available brokers: 1.",
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        ),
        (
            0,
            "Replication factor must be larger than 0.",
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            -2,
            "Replication factor must be larger than 0.",
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
    ],
)
def test_the_replication_factor_must_be_possible(
    wire: WireClient, topic: str, either: Either, factor: int, kbroker: str, kafka: str
) -> None:
    refused = wire.create_topics({"name": topic, "replication_factor": factor})
    assert refused == [f"38 INVALID_REPLICATION_FACTOR ({either(kbroker, kafka)})"]


@pytest.mark.row(186)
@pytest.mark.parametrize("count", [0, -2])
def test_the_number_of_partitions_must_be_positive(
    wire: WireClient, topic: str, either: Either, count: int
) -> None:
    reason = either(
        "Number of partitions must be larger than 0.",
        "Number of partitions was set to an invalid non-positive value.",
    )
    refused = wire.create_topics({"name": topic, "num_partitions": count})
    assert refused == [f"37 INVALID_PARTITIONS ({reason})"]


TOO_MANY = "44 POLICY_VIOLATION (Excessively large number of partitions per request.)"
TOO_LARGE = "44 POLICY_VIOLATION (Unable to perform excessively large batch operation.)"


@pytest.mark.parametrize(
    ("counts", "kbroker", "kafka"),
    [
        ([9_999], ["0"], ["0"]),
        ([10_000], ["0"], [TOO_LARGE]),  # with the topic's own, too many records of metadata
        ([10_001], [TOO_MANY], [TOO_MANY]),
        ([200_001], [TOO_MANY], [TOO_MANY]),
        ([1, 10_001, 1], ["0", TOO_MANY, "0"], [TOO_MANY] * 3),
        ([5_000, 5_001], ["0", "0"], [TOO_MANY] * 2),
        ([10_000] * 20, ["0"] * 20, [TOO_MANY] * 20),
        ([10_000] * 20 + [1], ["0"] * 20 + [TOO_MANY], [TOO_MANY] * 21),
    ],
    ids=lambda value: f"{sum(value)} in {len(value)}" if isinstance(value[0], int) else "",
)
def test_a_request_makes_so_many_partitions_and_no_more(
    wire: WireClient, topic: str, either: Either, counts: list[int], kbroker: str, kafka: str
) -> None:
    wanted = [{"name": f"{topic}-{n}", "num_partitions": each} for n, each in enumerate(counts)]

    assert wire.create_topics(*wanted, validate_only=True) == either(kbroker, kafka)


@pytest.mark.row(186, 187)
@pytest.mark.parametrize("version", [3, 5])
def test_minus_one_partitions_are_the_default(wire: WireClient, topic: str, version: int) -> None:
    assert wire.create_topics({"name": topic, "num_partitions": -1}, version=version) == ["0"]


@pytest.mark.row(188)
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("no.such.config", "1", "Unknown topic config name: no.such.config"),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
    ],
)  # fmt: skip
def test_a_setting_must_exist_and_have_a_value_of_its_type(
    wire: WireClient, topic: str, key: str, value: str | None, reason: str
) -> None:
    refused = wire.create_topics({"name": topic, "configs": [{"name": key, "value": value}]})
    assert refused == [f"{INVALID_CONFIG} ({reason})"]


@pytest.mark.row(189)
@pytest.mark.parametrize(
    ("key", "value", "reasons"),
    [
        ("cleanup.policy", "foo", ("String must be one of: compact, delete",) * 2),
        ("segment.bytes", "1", ("Value must be at least 14", "Value must be at least 1048576")),
        ("min.insync.replicas", "0", ("Value must be at least 1",) * 2),
        ("max.message.bytes", "-1", ("Value must be at least 0",) * 2),
        ("segment.bytes", "100000", ("fine", "Value must be at least 1048576")),
    ],
)
def test_a_setting_must_keep_its_bounds(
    wire: WireClient, topic: str, either: Either, key: str, value: str, reasons: tuple[str, str]
) -> None:
    answer = wire.create_topics({"name": topic, "configs": [{"name": key, "value": value}]})
    reason = either(*reasons)
    refused = f"{INVALID_CONFIG} (Invalid value {value} for configuration {key}: {reason})"
    assert answer == ["0" if reason == "fine" else refused]


@pytest.mark.row(190)
def test_a_setting_given_twice_is_accepted(wire: WireClient, topic: str) -> None:
    twice = [{"name": "retention.ms", "value": "1000"}] * 2
    assert wire.create_topics({"name": topic, "configs": twice}) == ["0"]


@pytest.mark.row(191)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("message.format.version", "2.8"),
        ("message.downconversion.enable", "false"),
        ("message.timestamp.difference.max.ms", "1000"),
    ],
)
def test_settings_of_the_zookeeper_line_are_known(
    wire: WireClient, topic: str, either: Either, key: str, value: str
) -> None:
    answer = wire.create_topics({"name": topic, "configs": [{"name": key, "value": value}]})
    assert answer == [either("0", f"{INVALID_CONFIG} (Unknown topic config name: {key})")]


@pytest.mark.row(192)
def test_counts_and_assignments_exclude_each_other(
    wire: WireClient, topic: str, either: Either
) -> None:
    assignments = [{"partition_index": 0, "broker_ids": [wire.node_id()]}]
    assert wire.create_topics({"name": topic, "assignments": assignments}) == [
        either(
            "42 INVALID_REQUEST (Both numPartitions or replicationFactor and replicasAssignments "
            "were set. Both cannot be used at the same time.)",
            "42 INVALID_REQUEST (A manual partition assignment was specified, but replication "
            "factor was not set to -1.)",
        )
    ]


@pytest.mark.row(192)
@pytest.mark.parametrize(
    ("index", "brokers"),
    [(0, [99]), (1, [None]), (0, []), (0, [None, None])],
    ids=["unknown broker", "not from 0", "no replica", "a broker twice"],
)
def test_an_assignment_that_cannot_be_is_refused(
    wire: WireClient, topic: str, index: int, brokers: list[int | None]
) -> None:
    node_id = wire.node_id()
    broker_ids = [node_id if broker is None else broker for broker in brokers]
    assignments = [{"partition_index": index, "broker_ids": broker_ids}]
    wanted = {
        "name": topic,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
    }
    # Where brokers are unknown or there are none, the ZooKeeper line makes the topic and waits for a
    # leader that cannot be; the KRaft line refuses, as kbroker does.
    (refused,) = wire.create_topics(wanted)
    assert refused.startswith(INVALID_ASSIGNMENT)
    assert code(wire.metadata(topic).error_code) == "3 UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.row(193)
def test_a_topic_named_twice_is_not_created(
    wire: WireClient, topic: str, either: Callable[[list[str], list[str]], list[str]]
) -> None:
    refused = wire.create_topics({"name": topic}, {"name": topic})
    assert refused == either(
        ["42 INVALID_REQUEST (Found multiple entries for this topic.)"] * 2,
        ["42 INVALID_REQUEST (Duplicate topic name.)"],
    )
    assert code(wire.metadata(topic).error_code) == UNKNOWN_TOPIC


@pytest.mark.row(194)
def test_a_validated_topic_is_not_created(wire: WireClient, topic: str) -> None:
    assert wire.create_topics({"name": topic}, validate_only=True) == ["0"]
    assert code(wire.metadata(topic).error_code) == UNKNOWN_TOPIC


@pytest.mark.row(195)
def test_the_answer_shows_what_was_made(
    wire: WireClient, topic: str, either: Callable[[object, object], object]
) -> None:
    configs = [{"name": "retention.ms", "value": "1000"}]
    wanted = {"name": topic, "num_partitions": 2, "replication_factor": 1, "configs": configs}
    made = wire.call(CREATE_TOPICS, 5, topics=[wanted], timeout=10_000).topics[0]
    assert (code(made.error_code), made.num_partitions, made.replication_factor) == ("0", 2, 1)
    assert ("retention.ms", "1000", 1) in {(c.name, c.value, c.config_source) for c in made.configs}
    assert {c.read_only for c in made.configs} == {False}
    sources = {c.config_source for c in made.configs}
    assert (len(made.configs), sources >= {1, 5}) == either((36, True), (33, True))


@pytest.mark.row(196)
def test_a_timeout_of_0_is_a_timeout(wire: WireClient, topic: str) -> None:
    answer = wire.create_topics({"name": topic}, timeout=0)
    assert [refused.partition(" (")[0] for refused in answer] == ["7 REQUEST_TIMED_OUT"]


@pytest.mark.row(197)
def test_two_underscores_are_allowed_and_internal_names_are_taken(
    wire: WireClient, topic: str
) -> None:
    wire.wait_for_coordinator("any")
    assert wire.create_topics({"name": f"__{topic}"}) == ["0"]
    taken = "36 TOPIC_ALREADY_EXISTS (Topic '__consumer_offsets' already exists.)"
    assert wire.create_topics({"name": "__consumer_offsets"}) == [taken]


@pytest.mark.row(198)
def test_a_missing_topic_cannot_be_deleted(wire: WireClient, topic: str, either: Either) -> None:
    reason = either("", " (This server does not host this topic-partition.)")
    assert delete(wire, topic) == [f"{UNKNOWN_TOPIC}{reason}"]


@pytest.mark.row(198)
def test_a_missing_topic_id_cannot_be_deleted(wire: WireClient, either: Either) -> None:
    topics = [{"name": None, "topic_id": uuid.uuid4()}]
    refused = wire.call(DELETE_TOPICS, 6, topics=topics, timeout=10_000).responses[0]
    reason = either("", " (This server does not host this topic ID.)")
    answer = code(refused.error_code, refused.error_message)
    assert (answer, refused.name) == (f"100 UNKNOWN_TOPIC_ID{reason}", None)


def test_a_topic_is_deleted_by_its_id(wire: WireClient) -> None:
    topic = wire.create_topic()
    topics = [{"topic_id": uuid.UUID(int=0), "name": topic}]
    topic_id = wire.call(3, 12, topics=topics).topics[0].topic_id
    deletion = [{"name": None, "topic_id": topic_id}]
    done = wire.call(DELETE_TOPICS, 6, topics=deletion, timeout=10_000).responses[0]
    assert (code(done.error_code), done.name) == ("0", topic)
    assert code(wire.metadata(topic).error_code) == UNKNOWN_TOPIC


def test_a_topic_by_its_name_and_by_its_id_stays(
    wire: WireClient, either: Callable[[str, str], str]
) -> None:
    topic, other = wire.create_topic(), wire.create_topic()
    no_id = uuid.UUID(int=0)
    topic_id = wire.call(3, 12, topics=[{"topic_id": no_id, "name": topic}]).topics[0].topic_id
    deletion = [
        {"name": topic, "topic_id": no_id},
        {"name": None, "topic_id": topic_id},
        {"name": other, "topic_id": no_id},
    ]
    answers = wire.call(DELETE_TOPICS, 6, topics=deletion, timeout=10_000).responses
    reason = either(
        "The topic is named both by name and by id.",
        "The provided topic name maps to an ID that was already supplied.",
    )
    assert {(each.name, code(each.error_code, each.error_message)) for each in answers} == {
        (topic, f"42 INVALID_REQUEST ({reason})"),
        (other, "0"),
    }
    assert len(answers) == 2
    assert code(wire.metadata(topic).error_code) == "0"


@pytest.mark.row(199)
def test_a_broker_may_forbid_deleting(own_broker: Callable[..., BrokerProcess]) -> None:
    wire = WireClient(own_broker("--override", "delete.topic.enable=false").bootstrap)
    topic = wire.create_topic()
    codes = [
        refused.partition(" (")[0] for v in (5, 1) for refused in delete(wire, topic, version=v)
    ]
    assert codes == ["73 TOPIC_DELETION_DISABLED", "42 INVALID_REQUEST"]
    assert code(wire.metadata(topic).error_code) == "0"
    wire.close()


@pytest.mark.row(200)
def test_a_topic_named_twice_is_deleted(
    wire: WireClient, either: Callable[[list[str], list[str]], list[str]]
) -> None:
    topic = wire.create_topic()
    refused = ["42 INVALID_REQUEST (Duplicate topic name.)"]
    assert delete(wire, topic, topic) == either(["0", "0"], refused)


@pytest.mark.row(201)
def test_a_deleted_topic_is_gone_at_once(wire: WireClient) -> None:
    topic = wire.create_topic()
    assert delete(wire, topic) == ["0"]
    assert code(wire.metadata(topic).error_code) == UNKNOWN_TOPIC
    assert fetched(wire.fetch(topic, 0)).startswith(f"{UNKNOWN_TOPIC}; hw=-1; lso")
    assert wire.produce(topic, batch()) == f"{UNKNOWN_TOPIC}; {REFUSED}"


def test_a_deleted_topic_can_be_created_again_and_is_empty(wire: WireClient) -> None:
    topic = wire.create_topic()
    assert wire.produce(topic, batch()).startswith("0; base_offset=0")
    assert delete(wire, topic) == ["0"]
    wire.create_topic(topic)
    assert wire.list_offsets(topic, -1).startswith("0 offset=0 ")


@pytest.mark.row(202)
@pytest.mark.parametrize("count", [2, 3, 0])
def test_a_topic_only_grows(wire: WireClient, either: Either, count: int) -> None:
    topic = wire.create_topic(partitions=3)
    fewer = either(
        f"Topic currently has 3 partitions, which is higher than the requested {count}.",
        f"The topic {topic} currently has 3 partition(s); {count} would not be an increase.",
    )
    same = either("Topic already has 3 partitions.", "Topic already has 3 partition(s).")
    reason = same if count == 3 else fewer
    assert create_partitions(wire, topic, count) == f"37 INVALID_PARTITIONS ({reason})"


@pytest.mark.row(202)
def test_a_missing_topic_does_not_grow(wire: WireClient, topic: str, either: Either) -> None:
    reason = either(f" (The topic '{topic}' does not exist.)", "")
    assert create_partitions(wire, topic, 2) == f"{UNKNOWN_TOPIC}{reason}"


def test_new_partitions_are_served(wire: WireClient) -> None:
    topic = wire.create_topic()
    assert create_partitions(wire, topic, 3) == "0"
    wire.wait_for_topic(topic, 3)
    assert wire.produce(topic, batch(), partition=2).startswith("0; base_offset=0")


@pytest.mark.row(203)
def test_each_new_partition_needs_an_assignment(wire: WireClient, either: Either) -> None:
    topic = wire.create_topic()
    reason = either(
        "Increasing the number of partitions by 2 but 1 assignments provided.",
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    )
    refused = create_partitions(wire, topic, 3, wire.node_id())
    assert refused == f"{INVALID_ASSIGNMENT} ({reason})"


@pytest.mark.row(203)
def test_a_new_partition_needs_a_broker_that_exists(wire: WireClient, either: Either) -> None:
    reason = either(
        "Unknown broker(s) in replica assignment: 99.",
        "The manual partition assignment includes broker 99, but no such broker is registered.",
    )
    refused = create_partitions(wire, wire.create_topic(), 2, 99)
    assert refused == f"{INVALID_ASSIGNMENT} ({reason})"


@pytest.mark.row(263)
def test_the_topic_of_group_offsets_can_be_deleted(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    wire = WireClient(own_broker().bootstrap)
    wire.wait_for_coordinator("any")
    assert delete(wire, "__consumer_offsets") == ["0"]
    wire.close()
