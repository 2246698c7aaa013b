"""Requests at and beyond the edges of what administration takes: names, counts, assignments,
settings, doubles, nulls, times. Each is put in every version to kbroker and to Apache Kafka.

A question gets a topic name of its own; topics `plain` (three partitions) and `dot.ted` are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import Message

BROKER_ID = 1
TOPIC, BROKER, LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)
TIMEOUT_MS = 10_000
SOME_ID = UUID("00000000-0000-4000-8000-00000000abcd")

Requests = Callable[[str], Sequence[Message]]


@dataclass(frozen=True)
class Question:
    """Requests in their order, given the name of a topic that nobody else uses; the first one's
    class is asked in every version, others in their newest. `makes` says that the topic is there.
    Left out: versions that cannot say "only validated" of a request that does; 3.9.2 would make all.
    """

    name: str
    requests: Requests
    makes: bool = False


BAD_NAMES = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "space": "a b",
    "umlaut": "\u00e4",
    "250 long": "x" * 250,
    "NUL": "a\0b",
    "internal": "__consumer_offsets",
    "colliding": "dot_ted",
}
TIMES = {"0": 0, "-1": -1, "max": INT_MAX, "min": INT_MIN}


def questions() -> Iterator[Question]:
    """All of them."""
    yield from _created()
    yield from _created_with_settings()
    yield from _deleted()
    yield from _grown()
    yield from _described()
    yield from _altered_topics()
    yield from _altered_brokers()
    yield from _loggers()
    yield from _others()


# ---- topics


def create(*topics: CreateTopicsRequest.CreatableTopic, **values: object) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **{"timeout_ms": TIMEOUT_MS, **values})  # type: ignore[arg-type]


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    settings: Sequence[tuple[str, str | None]] = (),
    assignments: Sequence[tuple[int, list[int]]] = (),
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in settings
        ],
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments
        ],
    )


def _one(name: str, *requests: Callable[[str], Message], makes: bool = False) -> Question:
    return Question(name, lambda t: [request(t) for request in requests], makes)


def _created() -> Iterator[Question]:
    for what, name in BAD_NAMES.items():
        yield _one(f"create: {what}", lambda _, name=name: create(topic(name)))
        yield _one(
            f"create: {what}, only validated",
            lambda _, name=name: create(topic(name), validate_only=True),
        )
    for partitions, factor in ((0, 1), (-1, -1), (-2, 1), (INT_MIN, 1), (1, 0), (1, -2), (1, 2), (10_001, 1), (1, 32767)):
        yield _one(
            f"create: {partitions} partitions, factor {factor}",
            lambda t, p=partitions, f=factor: create(topic(t, p, f), validate_only=True),
        )
    yield _one("create: none", lambda _: create())
    yield _one("create: one", lambda t: create(topic(t)))
    yield _one("create: one twice", lambda t: create(topic(t), topic(t)))
    yield _one("create: one twice beside a good one", lambda t: create(topic(t), topic(t), topic(f"{t}x")))
    yield _one("create: two that collide", lambda t: create(topic(f"{t}.x"), topic(f"{t}_x")))
    yield _one("create: two that collide, only validated", lambda t: create(topic(f"{t}.x"), topic(f"{t}_x"), validate_only=True))
    yield _one("create: one that is there", lambda _: create(topic("plain")))
    yield _one("create: one that is there, only validated", lambda _: create(topic("plain"), validate_only=True))
    yield _one("create: one that is there, with bad counts", lambda _: create(topic("plain", 0, 9)))
    yield _one("create: bad name and bad counts", lambda _: create(topic("a b", 0, 9)))
    yield _one("create: bad counts and bad settings", lambda t: create(topic(t, 0, 1, [("no.such", "1")])))
    for what, ms in TIMES.items():
        yield _one(f"create: time {what}, only validated", lambda t, ms=ms: create(topic(t), timeout_ms=ms, validate_only=True))
    yield _one("create: time 0", lambda t: create(topic(t), timeout_ms=0))
    yield _one("create: time -1", lambda t: create(topic(t), timeout_ms=-1))
    for what, given in {
        "unknown broker": [(0, [99])],
        "unknown broker second": [(0, [BROKER_ID, 99])],
        "negative broker": [(0, [-1])],
        "broker twice": [(0, [BROKER_ID, BROKER_ID])],
        "a gap": [(0, [BROKER_ID]), (2, [BROKER_ID])],
        "from 1": [(1, [BROKER_ID])],
        "negative partition": [(-1, [BROKER_ID])],
        "a partition twice": [(0, [BROKER_ID]), (0, [BROKER_ID])],
        "no replica": [(0, [])],
        "one without replica": [(0, [BROKER_ID]), (1, [])],
        "factors differ": [(0, [BROKER_ID]), (1, [BROKER_ID, 99])],
        "good": [(1, [BROKER_ID]), (0, [BROKER_ID])],
    }.items():
        yield _one(f"create: by hand, {what}", lambda t, given=given: create(topic(t, -1, -1, assignments=given), timeout_ms=300))
        yield _one(f"create: by hand, {what}, only validated", lambda t, given=given: create(topic(t, -1, -1, assignments=given), validate_only=True))
    for partitions, factor in ((1, -1), (-1, 1), (1, 1), (0, 0), (0, -1)):
        yield _one(
            f"create: by hand and {partitions} partitions, factor {factor}",
            lambda t, p=partitions, f=factor: create(topic(t, p, f, assignments=[(0, [BROKER_ID])])),
        )
    yield _one(
        "create: by hand, 10,001 partitions",
        lambda t: create(topic(t, -1, -1, assignments=[(n, [BROKER_ID]) for n in range(10_001)]), validate_only=True),
    )


SETTINGS: dict[str, Sequence[str]] = {
    "remote.storage.enable": ("true", "false", "maybe"),
    "remote.log.copy.disable": ("true", "false"),
    "remote.log.delete.on.disable": ("true", "false"),
    "local.retention.ms": ("-2", "-1", "-3", "1", "99999999999999"),
    "local.retention.bytes": ("-2", "-1", "-3", "1"),
    "leader.replication.throttled.replicas": ("*", "0:1", "0:1,1:2", "none", "0:1,", "a:b", "", "*,0:1", "0:1 , 1:2"),
    "follower.replication.throttled.replicas": ("*", "0:1", "garbage", ""),
    "message.format.version": ("0.10.0", "2.8", "3.0", "3.9", "4.0", "9.9", "nope", ""),
    "message.downconversion.enable": ("true", "false", "1"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", "logappendtime", ""),
    "message.timestamp.difference.max.ms": ("0", "-1", "1"),
    "message.timestamp.before.max.ms": ("0", "-1"),
    "message.timestamp.after.max.ms": ("0", "-1"),
    "unclean.leader.election.enable": ("true", "TRUE", "yes"),
    "min.insync.replicas": ("0", "1", "2", "2147483648"),
    "compression.type": ("gzip", "none", "uncompressed", "GZIP", "zip"),
    "compression.gzip.level": ("-1", "0", "1", "9", "10"),
    "compression.lz4.level": ("0", "1", "17", "18"),
    "compression.zstd.level": ("-131073", "-131072", "22", "23"),
    "segment.bytes": ("13", "14", "1048575", "1048576", "2147483647", "2147483648"),
    "segment.ms": ("0", "1", "-1"),
    "segment.jitter.ms": ("-1", "0"),
    "segment.index.bytes": ("3", "4"),
    "index.interval.bytes": ("-1", "0"),
    "retention.ms": ("-2", "-1", "0", "9223372036854775807", "9223372036854775808", "1e3", " 5 ", "", "+5", "0x10"),
    "retention.bytes": ("-2", "-1", "0", "-9223372036854775808"),
    "cleanup.policy": ("", "compact", "delete", "compact,delete", "delete,delete", "COMPACT", "none", "compact,", ","),
    "delete.retention.ms": ("-1", "0"),
    "file.delete.delay.ms": ("-1", "0"),
    "flush.messages": ("0", "1"),
    "flush.ms": ("-1", "0"),
    "max.message.bytes": ("-1", "0"),
    "max.compaction.lag.ms": ("0", "1"),
    "min.compaction.lag.ms": ("-1", "0"),
    "min.cleanable.dirty.ratio": ("-0.1", "0", "1", "1.1", "NaN", "x"),
    "preallocate": ("true", "x"),
    "no.such": ("1",),
    "Retention.Ms": ("1",),
    "": ("1",),
}
COMBINATIONS: dict[str, Sequence[tuple[str, str | None]]] = {
    "lags crossed": [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")],
    "local retention above retention": [("local.retention.ms", "10"), ("retention.ms", "5")],
    "local retention bytes above": [("local.retention.bytes", "10"), ("retention.bytes", "5")],
    "local retention without end": [("local.retention.ms", "-1"), ("retention.ms", "5")],
    "remote and compacted": [("remote.storage.enable", "true"), ("cleanup.policy", "compact")],
    "remote copy disabled": [("remote.storage.enable", "true"), ("remote.log.copy.disable", "true")],
    "level of another codec": [("compression.type", "gzip"), ("compression.zstd.level", "3")],
    "a key twice": [("retention.ms", "1"), ("retention.ms", "2")],
    "null": [("retention.ms", None)],
    "two nulls": [("retention.ms", None), ("segment.ms", None)],
    "unknown and bad": [("no.such", "1"), ("retention.ms", "x")],
    "two bad": [("segment.ms", "x"), ("retention.ms", "x")],
}


def _created_with_settings() -> Iterator[Question]:
    for name, values in SETTINGS.items():
        for value in values:
            yield _one(
                f"create: {name}={value}",
                lambda t, s=(name, value): create(topic(t, settings=[s]), validate_only=True),
            )
    for what, settings in COMBINATIONS.items():
        yield _one(
            f"create: settings, {what}",
            lambda t, s=settings: create(topic(t, settings=s), validate_only=True),
        )


def delete(*names: str | None, ids: Sequence[UUID] = (), timeout_ms: int = TIMEOUT_MS) -> Message:
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    states += [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=i) for i in ids]
    return DeleteTopicsRequest(
        topics=states, topic_names=[n for n in names if n is not None], timeout_ms=timeout_ms
    )


def _deleted() -> Iterator[Question]:
    yield _one("delete: none", lambda _: delete())
    yield _one("delete: one", lambda t: delete(t), makes=True)
    yield _one("delete: one twice", lambda t: delete(t, t), makes=True)
    yield _one("delete: one and an unknown one", lambda t: delete(t, "no-such"), makes=True)
    yield _one("delete: an unknown one twice", lambda _: delete("no-such", "no-such"))
    for what, name in BAD_NAMES.items():
        if what not in ("internal",):
            yield _one(f"delete: {what}", lambda _, name=name: delete(name))
    yield _one("delete: unknown id", lambda _: delete(ids=[SOME_ID]))
    yield _one("delete: unknown id twice", lambda _: delete(ids=[SOME_ID, SOME_ID]))
    yield _one("delete: neither name nor id", lambda _: delete(ids=[UUID(int=0)]))
    yield _one(
        "delete: name and id",
        lambda t: DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=t, topic_id=SOME_ID)],
            topic_names=[t], timeout_ms=TIMEOUT_MS,
        ),
        makes=True,
    )  # fmt: skip
    for what, ms in (("0", 0), ("-1", -1)):
        yield _one(f"delete: time {what}", lambda t, ms=ms: delete(t, timeout_ms=ms), makes=True)
        yield _one(f"delete: unknown, time {what}", lambda _, ms=ms: delete("no-such", timeout_ms=ms))


def grow(
    name: str, count: int, assignments: Sequence[list[int]] | None = None, **values: object
) -> CreatePartitionsRequest:
    one = _growth(name, count, assignments)
    return CreatePartitionsRequest(topics=[one], **{"timeout_ms": TIMEOUT_MS, **values})  # type: ignore[arg-type]


def _growth(
    name: str, count: int, assignments: Sequence[list[int]] | None = None
) -> CreatePartitionsRequest.CreatePartitionsTopic:
    given = None
    if assignments is not None:
        given = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=a) for a in assignments]
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=given)


def _grown() -> Iterator[Question]:
    yield _one("grow: none", lambda _: CreatePartitionsRequest(topics=[], timeout_ms=TIMEOUT_MS))
    for what, name in BAD_NAMES.items():
        yield _one(f"grow: {what}", lambda _, name=name: grow(name, 200, validate_only=True))
    for count in (0, -1, 1, 10_002):
        yield _one(f"grow: to {count}", lambda t, n=count: grow(t, n, validate_only=True), makes=True)
    yield _one("grow: to 2", lambda t: grow(t, 2), makes=True)
    yield _one("grow: time 0", lambda t: grow(t, 2, timeout_ms=0), makes=True)
    yield _one("grow: time -1", lambda t: grow(t, 2, timeout_ms=-1), makes=True)
    yield _one("grow: time 0, only validated", lambda t: grow(t, 2, timeout_ms=0, validate_only=True), makes=True)
    yield _one(
        "grow: one twice",
        lambda t: CreatePartitionsRequest(topics=[_growth(t, 2), _growth(t, 3)], timeout_ms=TIMEOUT_MS),
        makes=True,
    )
    yield _one(
        "grow: an unknown one twice",
        lambda _: CreatePartitionsRequest(topics=[_growth("no-such", 2)] * 2, timeout_ms=TIMEOUT_MS),
    )
    yield _one("grow: unknown", lambda _: grow("no-such", 2))
    for what, given in {
        "empty": [],
        "good": [[BROKER_ID]],
        "too many": [[BROKER_ID], [BROKER_ID]],
        "unknown broker": [[99]],
        "negative broker": [[-1]],
        "broker twice": [[BROKER_ID, BROKER_ID]],
        "no replica": [[]],
        "other factor": [[BROKER_ID, 99]],
    }.items():
        yield _one(f"grow: by hand, {what}", lambda t, a=given: grow(t, 2, a, validate_only=True), makes=True)


# ---- settings


def describe(
    *resources: tuple[int, str, list[str] | None], synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


BROKER_NAMES = {
    "own": str(BROKER_ID),
    "empty": "",
    "other": "99",
    "no number": "x",
    "negative": "-1",
    "leading zero": f"0{BROKER_ID}",
    "plus": f"+{BROKER_ID}",
    "space": f" {BROKER_ID}",
    "too large": str(2**31),
}
SOME_KEYS = ["log.retention.ms", "log.cleaner.threads", "message.max.bytes", "broker.id"]


def _described() -> Iterator[Question]:
    yield _one("describe: none", lambda _: describe())
    for what, name in BAD_NAMES.items():
        if what != "internal":
            yield _one(f"describe: topic {what}", lambda _, name=name: describe((TOPIC, name, None)))
    yield _one("describe: internal topic", lambda _: describe((TOPIC, "__consumer_offsets", ["cleanup.policy"])))
    yield _one("describe: unknown topic", lambda _: describe((TOPIC, "no-such", None)))
    yield _one("describe: topic", lambda _: describe((TOPIC, "plain", None), synonyms=True, documentation=False))
    yield _one("describe: topic, no keys", lambda _: describe((TOPIC, "plain", [])))
    yield _one("describe: topic, unknown keys", lambda _: describe((TOPIC, "plain", ["no.such", "", "retention.ms"])))
    yield _one("describe: topic, a key twice", lambda _: describe((TOPIC, "plain", ["retention.ms", "retention.ms"])))
    yield _one("describe: topic twice", lambda _: describe((TOPIC, "plain", ["retention.ms"]), (TOPIC, "plain", ["segment.ms"])))
    yield _one("describe: unknown topic beside another", lambda _: describe((TOPIC, "no-such", None), (TOPIC, "plain", ["segment.ms"])))
    for what, name in BROKER_NAMES.items():
        yield _one(f"describe: broker {what}", lambda _, name=name: describe((BROKER, name, SOME_KEYS), synonyms=True))
        yield _one(f"describe: logger of {what}", lambda _, name=name: describe((LOGGER, name, ["no.such"])))
    for kind in (0, 1, 3, 5, 16, 32, 127, -1):
        yield _one(f"describe: kind {kind}", lambda _, kind=kind: describe((kind, "x", None)))
        yield _one(f"describe: kind {kind} beside a topic", lambda _, kind=kind: describe((kind, "x", None), (TOPIC, "plain", ["segment.ms"])))


def alter(kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Message:
    return incremental((kind, name, changes), validate_only=validate_only)


def incremental(
    *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]], validate_only: bool = False
) -> Message:
    kind = IncrementalAlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    kind.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for resource_type, name, changes in resources
        ],
        validate_only=validate_only,
    )


def legacy(
    *resources: tuple[int, str, Sequence[tuple[str, str | None]]], validate_only: bool = False
) -> Message:
    kind = AlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[kind.AlterableConfig(name=key, value=value) for key, value in changes],
            )
            for resource_type, name, changes in resources
        ],
        validate_only=validate_only,
    )


def _altered_topics() -> Iterator[Question]:
    for name, values in SETTINGS.items():
        for value in values:
            yield _one(
                f"alter: {name}={value}",
                lambda t, s=(name, SET, value): alter(TOPIC, t, s),
                lambda t, name=name: describe((TOPIC, t, [name])),
                makes=True,
            )
            yield _one(
                f"replace: {name}={value}",
                lambda t, s=(name, value): legacy((TOPIC, t, [s])),
                lambda t, name=name: describe((TOPIC, t, [name])),
                makes=True,
            )
    for what, settings in COMBINATIONS.items():
        yield _one(
            f"alter: settings, {what}",
            lambda t, s=settings: alter(TOPIC, t, *((k, SET, v) for k, v in s), validate_only=True),
            makes=True,
        )
        yield _one(
            f"replace: settings, {what}",
            lambda t, s=settings: legacy((TOPIC, t, s), validate_only=True),
            makes=True,
        )
    yield _one("alter: none", lambda _: incremental())
    yield _one("alter: nothing of a topic", lambda t: alter(TOPIC, t), makes=True)
    yield _one("replace: none", lambda _: legacy())
    yield _one("replace: nothing of a topic", lambda t: legacy((TOPIC, t, [])), makes=True)
    retention = ("retention.ms", SET, "1")
    for what, name in BAD_NAMES.items():
        if what != "internal":
            yield _one(f"alter: topic {what}", lambda _, name=name: alter(TOPIC, name, retention))
            yield _one(f"replace: topic {what}", lambda _, name=name: legacy((TOPIC, name, [("retention.ms", "1")])))
    yield _one("alter: unknown topic", lambda _: alter(TOPIC, "no-such", retention))
    yield _one("alter: unknown topic, bad setting", lambda _: alter(TOPIC, "no-such", ("no.such", SET, "1")))
    yield _one("alter: topic twice", lambda t: incremental((TOPIC, t, [retention]), (TOPIC, t, [("segment.ms", SET, "5")])), makes=True)
    yield _one("alter: unknown topic beside another", lambda t: incremental((TOPIC, "no-such", [retention]), (TOPIC, t, [retention])), makes=True)
    for operation, key in ((DELETE, "no.such"), (DELETE, "retention.ms"), (DELETE, "remote.storage.enable"), (APPEND, "retention.ms"), (SUBTRACT, "retention.ms"), (APPEND, "no.such"), (SUBTRACT, "no.such"), (4, "retention.ms"), (-1, "retention.ms"), (127, "no.such")):
        for value in ("1", None, ""):
            yield _one(f"alter: operation {operation} of {key} with {value}", lambda t, s=(key, operation, value): alter(TOPIC, t, s), makes=True)
    for what, changes in {
        "append": [("cleanup.policy", APPEND, "compact")],
        "append what is there": [("cleanup.policy", APPEND, "delete")],
        "append two": [("cleanup.policy", APPEND, "compact,delete")],
        "append one twice": [("cleanup.policy", APPEND, "compact,compact")],
        "append garbage": [("cleanup.policy", APPEND, "garbage")],
        "append null": [("cleanup.policy", APPEND, None)],
        "append nothing": [("cleanup.policy", APPEND, "")],
        "subtract": [("cleanup.policy", SUBTRACT, "delete")],
        "subtract what is not there": [("cleanup.policy", SUBTRACT, "compact")],
        "subtract garbage": [("cleanup.policy", SUBTRACT, "garbage")],
        "subtract null": [("cleanup.policy", SUBTRACT, None)],
        "set and append": [("cleanup.policy", SET, "compact"), ("cleanup.policy", APPEND, "delete")],
        "throttle, append": [("leader.replication.throttled.replicas", APPEND, "0:1")],
        "throttle, append garbage": [("leader.replication.throttled.replicas", APPEND, "x")],
    }.items():
        yield _one(
            f"alter: list, {what}",
            lambda t, c=changes: alter(TOPIC, t, *c),
            lambda t: describe((TOPIC, t, ["cleanup.policy"])),
            makes=True,
        )
    for kind in (0, 1, 3, 5, 16, 32, 127, -1):
        yield _one(f"alter: kind {kind}", lambda _, kind=kind: alter(kind, "x", retention))
        yield _one(f"replace: kind {kind}", lambda _, kind=kind: legacy((kind, "x", [("retention.ms", "1")])))


BROKER_SETTINGS: dict[str, Sequence[str | None]] = {
    "log.retention.ms": ("-1", "-2", "0", "x", None),
    "log.cleaner.threads": ("0", "1", "2", "3", "100", "x", "-1"),
    "num.io.threads": ("0", "8", "16", "17", "1"),
    "num.network.threads": ("0", "3", "7"),
    "log.segment.bytes": ("13", "14"),
    "message.max.bytes": ("-1", "0"),
    "broker.id": ("1", "2"),
    "log.dirs": ("/x",),
    "listeners": ("PLAINTEXT://:1",),
    "advertised.listeners": ("x",),
    "ssl.keystore.location": ("x",),
    "ssl.keystore.password": ("x",),
    "sasl.jaas.config": ("x",),
    "max.connections": ("0", "-1"),
    "max.connections.per.ip.overrides": ("x", "127.0.0.1:1"),
    "metric.reporters": ("no.such.Class", ""),
    "log.cleanup.policy": ("compact", "x", ""),
    "compression.type": ("gzip", "x"),
    "unclean.leader.election.enable": ("true", "x"),
    "min.insync.replicas": ("0", "2"),
    "remote.log.index.file.cache.total.size.bytes": ("0", "1"),
    "log.local.retention.ms": ("-3", "1"),
    "log.message.timestamp.type": ("x",),
    "log.message.format.version": ("2.8",),
    "leader.replication.throttled.rate": ("-1", "0", "1", "x"),
    "follower.replication.throttled.rate": ("-1", "1"),
    "replica.alter.log.dirs.io.max.bytes.per.second": ("-1", "1"),
    "background.threads": ("10", "1", "0"),
    "log.cleaner.io.max.bytes.per.second": ("0", "x"),
    "log.cleaner.dedupe.buffer.size": ("1",),
    "log.cleaner.io.buffer.load.factor": ("2", "-1"),
    "no.such": ("1",),
    "password.encoder.secret": ("x",),
    "producer.id.expiration.ms": ("0", "1"),
    "auto.create.topics.enable": ("false",),
    "default.replication.factor": ("1",),
    "": ("1",),
}


def _altered_brokers() -> Iterator[Question]:
    for name, values in BROKER_SETTINGS.items():
        for value in values:
            for place in (str(BROKER_ID), ""):
                where = "broker" if place else "all brokers"
                yield _one(
                    f"alter: {where}, {name}={value}",
                    lambda _, p=place, s=(name, SET, value): alter(BROKER, p, s, validate_only=True),
                )
                yield _one(
                    f"replace: {where}, {name}={value}",
                    lambda _, p=place, s=(name, value): legacy((BROKER, p, [s]), validate_only=True),
                )
    for what, name in BROKER_NAMES.items():
        change = ("log.cleaner.threads", SET, "1")
        yield _one(f"alter: broker {what}", lambda _, name=name: alter(BROKER, name, change, validate_only=True))
        yield _one(f"replace: broker {what}", lambda _, name=name: legacy((BROKER, name, [("log.cleaner.threads", "1")]), validate_only=True))
    for operation, key in ((DELETE, "no.such"), (DELETE, "log.retention.ms"), (DELETE, "broker.id"), (DELETE, "listeners"), (APPEND, "log.cleanup.policy"), (APPEND, "log.retention.ms"), (SUBTRACT, "log.cleanup.policy"), (APPEND, "no.such"), (9, "log.retention.ms")):
        for place in (str(BROKER_ID), ""):
            where = "broker" if place else "all brokers"
            yield _one(f"alter: {where}, operation {operation} of {key}", lambda _, p=place, s=(key, operation, "compact"): alter(BROKER, p, s, validate_only=True))
    yield _one("alter: broker twice", lambda _: incremental(*[(BROKER, str(BROKER_ID), [("log.cleaner.threads", SET, "1")])] * 2, validate_only=True))
    yield _one("alter: broker, a key twice", lambda _: alter(BROKER, str(BROKER_ID), *[("log.cleaner.threads", SET, "1")] * 2, validate_only=True))
    yield _one("alter: broker and topic", lambda _: incremental((BROKER, str(BROKER_ID), [("broker.id", SET, "1")]), (TOPIC, "plain", [("retention.ms", SET, "604800000")]), validate_only=True))


def _loggers() -> Iterator[Question]:
    own = str(BROKER_ID)
    for what, name in BROKER_NAMES.items():
        yield _one(f"logger: broker {what}", lambda _, name=name: alter(LOGGER, name, ("root", SET, "INFO"), validate_only=True))
    for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF", "ALL", "WARNING", "info", "", " INFO", "x", None):
        yield _one(f"logger: root to {level}", lambda _, level=level: alter(LOGGER, own, ("root", SET, level), validate_only=True))
    for operation in (DELETE, APPEND, SUBTRACT, 4, -1):
        yield _one(f"logger: operation {operation} of root", lambda _, o=operation: alter(LOGGER, own, ("root", o, "INFO"), validate_only=True))
        yield _one(f"logger: operation {operation} of an unknown one", lambda _, o=operation: alter(LOGGER, own, ("no.such", o, "INFO"), validate_only=True))
    yield _one("logger: unknown", lambda _: alter(LOGGER, own, ("no.such", SET, "INFO"), validate_only=True))
    yield _one("logger: without name", lambda _: alter(LOGGER, own, ("", SET, "INFO"), validate_only=True))
    yield _one("logger: one twice", lambda _: alter(LOGGER, own, *[("root", SET, "INFO")] * 2, validate_only=True))
    yield _one("logger: nothing", lambda _: alter(LOGGER, own))
    yield _one("logger: replaced", lambda _: legacy((LOGGER, own, [("root", "INFO")]), validate_only=True))
    yield _one("logger: replaced, other broker", lambda _: legacy((LOGGER, "99", [("root", "INFO")]), validate_only=True))
    yield _one("logger: set and described", lambda _: alter(LOGGER, own, ("root", SET, "INFO")), lambda _: describe((LOGGER, own, ["root"]), synonyms=True, documentation=True))
    yield _one("logger: good and bad", lambda _: alter(LOGGER, own, ("root", SET, "INFO"), ("no.such", SET, "INFO"), validate_only=True))


# ---- the rest


def metadata(*names: str | None, create_missing: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create_missing,
    )


def _others() -> Iterator[Question]:
    for what, name in BAD_NAMES.items():
        if what != "internal":
            yield _one(f"metadata: {what}", lambda _, name=name: metadata(name))
            yield _one(f"metadata: creates {what}", lambda _, name=name: metadata(name, create_missing=True), lambda _, name=name: metadata(name))
    yield _one("metadata: a topic twice", lambda _: metadata("plain", "plain"))
    yield _one("metadata: an unknown one twice", lambda _: metadata("no-such", "no-such"))
    for name in ("plain", "no-such", "", "a b"):
        given = [(0, 0), (1, 0), (99, 0), (-1, 0)]
        yield _one(f"delete records: {name}", lambda _, name=name, given=given: _delete_records((name, given)))
    yield _one("delete records: none", lambda _: _delete_records())
    yield _one("delete records: a topic twice", lambda _: _delete_records(("plain", [(0, 0)]), ("plain", [(1, 0)])))
    yield _one("delete records: a partition twice", lambda _: _delete_records(("plain", [(0, 0), (0, 1)])))
    for offset in (-1, -2, 1, LONG_MAX, LONG_MIN):
        yield _one(f"delete records: offset {offset}", lambda _, offset=offset: _delete_records(("plain", [(0, offset)])))
    for kind in (0, 1, 2, -1):
        yield _one(f"elect: kind {kind}", lambda _, kind=kind: _elect(kind, ("plain", [0, 99, -1])))
        yield _one(f"elect: kind {kind}, unknown", lambda _, kind=kind: _elect(kind, ("no-such", [0])))
        yield _one(f"elect: kind {kind}, none", lambda _, kind=kind: _elect(kind))
        yield _one(f"elect: kind {kind}, all", lambda _, kind=kind: ElectLeadersRequest(election_type=kind, topic_partitions=None))
        yield _one(f"elect: kind {kind}, twice", lambda _, kind=kind: _elect(kind, ("plain", [0, 0]), ("plain", [0])))
    for what, ms in TIMES.items():
        yield _one(f"elect: time {what}", lambda _, ms=ms: ElectLeadersRequest(topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="plain", partitions=[0])], timeout_ms=ms))
    for what, topics in {
        "none": [],
        "one": [("plain", [0])],
        "unknown": [("no-such", [0])],
        "unknown partition": [("plain", [99, -1])],
        "twice": [("plain", [0, 0]), ("plain", [0])],
        "no partitions": [("plain", [])],
        "bad name": [("a b", [0])],
    }.items():
        yield _one(f"log dirs: {what}", lambda _, topics=topics: DescribeLogDirsRequest(topics=[DescribeLogDirsRequest.DescribableLogDirTopic(topic=n, partitions=p) for n, p in topics]))
    for kind in (0, 2, 3, -1):
        for what, keys in {"one": ["g"], "empty name": [""], "twice": ["g", "g"]}.items():
            yield _one(f"coordinator: kind {kind}, {what}", lambda _, kind=kind, keys=keys: FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys))
    yield _one("coordinator: none", lambda _: FindCoordinatorRequest(key="", coordinator_keys=[]))
    for kind in (0, 1, 2, 3, -1):
        yield _one(f"cluster: end points {kind}", lambda _, kind=kind: DescribeClusterRequest(endpoint_type=kind))
    for given in ((-1, -1), (5, 0), (-1, 0), (5, -1), (-2, -2)):
        yield _one(f"producer id: {given}", lambda _, g=given: InitProducerIdRequest(transactional_id=None, producer_id=g[0], producer_epoch=g[1]))
    for ms in (0, -1, INT_MAX):
        yield _one(f"producer id: time {ms}", lambda _, ms=ms: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=ms))
    yield _one("producer id: empty transactional id", lambda _: InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1))


def _delete_records(*topics: tuple[str, Sequence[tuple[int, int]]]) -> Message:
    kind = DeleteRecordsRequest
    return kind(
        topics=[
            kind.DeleteRecordsTopic(
                name=name,
                partitions=[kind.DeleteRecordsPartition(partition_index=p, offset=o) for p, o in given],
            )
            for name, given in topics
        ],
        timeout_ms=TIMEOUT_MS,
    )


def _elect(kind: int, *topics: tuple[str, Sequence[int]]) -> Message:
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(topic=name, partitions=list(numbers))
            for name, numbers in topics
        ],
    )
