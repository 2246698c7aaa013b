"""Questions of settings: those of topics, of brokers and the levels of loggers, described, altered and
replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.integration.admin_requests import (
    APPEND,
    BAD_NAMES,
    BROKER,
    BROKER_ID,
    DELETE,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    Question,
    alter,
    create,
    describe,
    incremental,
    legacy,
    one,
    topic,
)

SETTINGS: dict[str, Sequence[str]] = {
    "remote.storage.enable": ("true", "false", "maybe"),
    "remote.log.copy.disable": ("true", "false"),
    "remote.log.delete.on.disable": ("true", "false"),
    "local.retention.ms": ("-2", "-1", "-3", "1", "99999999999999"),
    "local.retention.bytes": ("-2", "-1", "-3", "1"),
    "leader.replication.throttled.replicas": (
        "*",
        "0:1",
        "0:1,1:2",
        "none",
        "0:1,",
        "a:b",
        "",
        "*,0:1",
        "0:1 , 1:2",
    ),
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
    "retention.ms": (
        "-2",
        "-1",
        "0",
        "9223372036854775807",
        "9223372036854775808",
        "1e3",
        " 5 ",
        "",
        "+5",
        "0x10",
    ),
    "retention.bytes": ("-2", "-1", "0", "-9223372036854775808"),
    "cleanup.policy": (
        "",
        "compact",
        "delete",
        "compact,delete",
        "delete,delete",
        "COMPACT",
        "none",
        "compact,",
        ",",
    ),
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
    "remote copy disabled": [
        ("remote.storage.enable", "true"),
        ("remote.log.copy.disable", "true"),
    ],
    "level of another codec": [("compression.type", "gzip"), ("compression.zstd.level", "3")],
    "a key twice": [("retention.ms", "1"), ("retention.ms", "2")],
    "null": [("retention.ms", None)],
    "two nulls": [("retention.ms", None), ("segment.ms", None)],
    "unknown and bad": [("no.such", "1"), ("retention.ms", "x")],
    "two bad": [("segment.ms", "x"), ("retention.ms", "x")],
}


def setting_questions() -> Iterator[Question]:
    """All of them."""
    yield from _created_with_settings()
    yield from _described()
    yield from _altered_topics()
    yield from _altered_lists()
    yield from _altered_brokers()
    yield from _named_brokers()
    yield from _loggers()


def _created_with_settings() -> Iterator[Question]:
    for name, values in SETTINGS.items():
        for value in values:
            yield one(
                f"create: {name}={value}",
                lambda t, s=(name, value): create(topic(t, settings=[s]), validate_only=True),
            )
    for what, settings in COMBINATIONS.items():
        yield one(
            f"create: settings, {what}",
            lambda t, s=settings: create(topic(t, settings=s), validate_only=True),
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
    yield one("describe: none", lambda _: describe())
    for what, name in BAD_NAMES.items():
        if what != "internal":
            yield one(f"describe: topic {what}", lambda _, name=name: describe((TOPIC, name, None)))
    yield one(
        "describe: internal topic",
        lambda _: describe((TOPIC, "__consumer_offsets", ["cleanup.policy"])),
    )
    yield one("describe: unknown topic", lambda _: describe((TOPIC, "no-such", None)))
    yield one(
        "describe: topic",
        lambda _: describe((TOPIC, "plain", None), synonyms=True, documentation=False),
    )
    yield one("describe: topic, no keys", lambda _: describe((TOPIC, "plain", [])))
    yield one(
        "describe: topic, unknown keys",
        lambda _: describe((TOPIC, "plain", ["no.such", "", "retention.ms"])),
    )
    yield one(
        "describe: topic, a key twice",
        lambda _: describe((TOPIC, "plain", ["retention.ms", "retention.ms"])),
    )
    yield one(
        "describe: topic twice",
        lambda _: describe((TOPIC, "plain", ["retention.ms"]), (TOPIC, "plain", ["segment.ms"])),
    )
    yield one(
        "describe: unknown topic beside another",
        lambda _: describe((TOPIC, "no-such", None), (TOPIC, "plain", ["segment.ms"])),
    )
    for what, name in BROKER_NAMES.items():
        yield one(
            f"describe: broker {what}",
            lambda _, name=name: describe((BROKER, name, SOME_KEYS), synonyms=True),
        )
        yield one(
            f"describe: logger of {what}",
            lambda _, name=name: describe((LOGGER, name, ["no.such"])),
        )
    for kind in (0, 1, 3, 5, 16, 32, 127, -1):
        yield one(f"describe: kind {kind}", lambda _, kind=kind: describe((kind, "x", None)))
        yield one(
            f"describe: kind {kind} beside a topic",
            lambda _, kind=kind: describe((kind, "x", None), (TOPIC, "plain", ["segment.ms"])),
        )


def _altered_topics() -> Iterator[Question]:
    for name, values in SETTINGS.items():
        for value in values:
            yield one(
                f"alter: {name}={value}",
                lambda t, s=(name, SET, value): alter(TOPIC, t, s),
                lambda t, name=name: describe((TOPIC, t, [name])),
                makes=True,
            )
            yield one(
                f"replace: {name}={value}",
                lambda t, s=(name, value): legacy((TOPIC, t, [s])),
                lambda t, name=name: describe((TOPIC, t, [name])),
                makes=True,
            )
    for what, settings in COMBINATIONS.items():
        yield one(
            f"alter: settings, {what}",
            lambda t, s=settings: alter(TOPIC, t, *((k, SET, v) for k, v in s), validate_only=True),
            makes=True,
        )
        yield one(
            f"replace: settings, {what}",
            lambda t, s=settings: legacy((TOPIC, t, s), validate_only=True),
            makes=True,
        )
    yield one("alter: none", lambda _: incremental())
    yield one("alter: nothing of a topic", lambda t: alter(TOPIC, t), makes=True)
    yield one("replace: none", lambda _: legacy())
    yield one("replace: nothing of a topic", lambda t: legacy((TOPIC, t, [])), makes=True)
    retention = ("retention.ms", SET, "1")
    for what, name in BAD_NAMES.items():
        if what != "internal":
            yield one(f"alter: topic {what}", lambda _, name=name: alter(TOPIC, name, retention))
            yield one(
                f"replace: topic {what}",
                lambda _, name=name: legacy((TOPIC, name, [("retention.ms", "1")])),
            )
    yield one("alter: unknown topic", lambda _: alter(TOPIC, "no-such", retention))
    yield one(
        "alter: unknown topic, bad setting",
        lambda _: alter(TOPIC, "no-such", ("no.such", SET, "1")),
    )
    yield one(
        "alter: topic twice",
        lambda t: incremental((TOPIC, t, [retention]), (TOPIC, t, [("segment.ms", SET, "5")])),
        makes=True,
    )
    yield one(
        "alter: unknown topic beside another",
        lambda t: incremental((TOPIC, "no-such", [retention]), (TOPIC, t, [retention])),
        makes=True,
    )


def _altered_lists() -> Iterator[Question]:
    for operation, key in (
        (DELETE, "no.such"),
        (DELETE, "retention.ms"),
        (DELETE, "remote.storage.enable"),
        (APPEND, "retention.ms"),
        (SUBTRACT, "retention.ms"),
        (APPEND, "no.such"),
        (SUBTRACT, "no.such"),
        (4, "retention.ms"),
        (-1, "retention.ms"),
        (127, "no.such"),
    ):
        for value in ("1", None, ""):
            yield one(
                f"alter: operation {operation} of {key} with {value}",
                lambda t, s=(key, operation, value): alter(TOPIC, t, s),
                makes=True,
            )
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
        "set and append": [
            ("cleanup.policy", SET, "compact"),
            ("cleanup.policy", APPEND, "delete"),
        ],
        "throttle, append": [("leader.replication.throttled.replicas", APPEND, "0:1")],
        "throttle, append garbage": [("leader.replication.throttled.replicas", APPEND, "x")],
    }.items():
        yield one(
            f"alter: list, {what}",
            lambda t, c=changes: alter(TOPIC, t, *c),
            lambda t: describe((TOPIC, t, ["cleanup.policy"])),
            makes=True,
        )
    for kind in (0, 1, 3, 5, 16, 32, 127, -1):
        yield one(
            f"alter: kind {kind}", lambda _, kind=kind: alter(kind, "x", ("retention.ms", SET, "1"))
        )
        yield one(
            f"replace: kind {kind}",
            lambda _, kind=kind: legacy((kind, "x", [("retention.ms", "1")])),
        )


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
                yield one(
                    f"alter: {where}, {name}={value}",
                    lambda _, p=place, s=(name, SET, value): alter(
                        BROKER, p, s, validate_only=True
                    ),
                )
                yield one(
                    f"replace: {where}, {name}={value}",
                    lambda _, p=place, s=(name, value): legacy(
                        (BROKER, p, [s]), validate_only=True
                    ),
                )


def _named_brokers() -> Iterator[Question]:
    change = ("log.cleaner.threads", SET, "1")
    for what, name in BROKER_NAMES.items():
        yield one(
            f"alter: broker {what}",
            lambda _, name=name: alter(BROKER, name, change, validate_only=True),
        )
        yield one(
            f"replace: broker {what}",
            lambda _, name=name: legacy(
                (BROKER, name, [("log.cleaner.threads", "1")]), validate_only=True
            ),
        )
    for operation, key in (
        (DELETE, "no.such"),
        (DELETE, "log.retention.ms"),
        (DELETE, "broker.id"),
        (DELETE, "listeners"),
        (APPEND, "log.cleanup.policy"),
        (APPEND, "log.retention.ms"),
        (SUBTRACT, "log.cleanup.policy"),
        (APPEND, "no.such"),
        (9, "log.retention.ms"),
    ):
        for place in (str(BROKER_ID), ""):
            where = "broker" if place else "all brokers"
            yield one(
                f"alter: {where}, operation {operation} of {key}",
                lambda _, p=place, s=(key, operation, "compact"): alter(
                    BROKER, p, s, validate_only=True
                ),
            )
    yield one(
        "alter: broker twice",
        lambda _: incremental(
            *[(BROKER, str(BROKER_ID), [("log.cleaner.threads", SET, "1")])] * 2, validate_only=True
        ),
    )
    yield one(
        "alter: broker, a key twice",
        lambda _: alter(
            BROKER, str(BROKER_ID), *[("log.cleaner.threads", SET, "1")] * 2, validate_only=True
        ),
    )
    yield one(
        "alter: broker and topic",
        lambda _: incremental(
            (BROKER, str(BROKER_ID), [("broker.id", SET, "1")]),
            (TOPIC, "plain", [("retention.ms", SET, "604800000")]),
            validate_only=True,
        ),
    )


def _loggers() -> Iterator[Question]:
    own = str(BROKER_ID)
    for what, name in BROKER_NAMES.items():
        yield one(
            f"logger: broker {what}",
            lambda _, name=name: alter(LOGGER, name, ("root", SET, "INFO"), validate_only=True),
        )
    for level in (
        "TRACE",
        "DEBUG",
        "INFO",
        "WARN",
        "ERROR",
        "FATAL",
        "OFF",
        "ALL",
        "WARNING",
        "info",
        "",
        " INFO",
        "x",
        None,
    ):
        yield one(
            f"logger: root to {level}",
            lambda _, level=level: alter(LOGGER, own, ("root", SET, level), validate_only=True),
        )
    for operation in (DELETE, APPEND, SUBTRACT, 4, -1):
        yield one(
            f"logger: operation {operation} of root",
            lambda _, o=operation: alter(LOGGER, own, ("root", o, "INFO"), validate_only=True),
        )
        yield one(
            f"logger: operation {operation} of an unknown one",
            lambda _, o=operation: alter(LOGGER, own, ("no.such", o, "INFO"), validate_only=True),
        )
    yield one(
        "logger: unknown",
        lambda _: alter(LOGGER, own, ("no.such", SET, "INFO"), validate_only=True),
    )
    yield one(
        "logger: without name", lambda _: alter(LOGGER, own, ("", SET, "INFO"), validate_only=True)
    )
    yield one(
        "logger: one twice",
        lambda _: alter(LOGGER, own, *[("root", SET, "INFO")] * 2, validate_only=True),
    )
    yield one("logger: nothing", lambda _: alter(LOGGER, own))
    yield one(
        "logger: replaced", lambda _: legacy((LOGGER, own, [("root", "INFO")]), validate_only=True)
    )
    yield one(
        "logger: replaced, other broker",
        lambda _: legacy((LOGGER, "99", [("root", "INFO")]), validate_only=True),
    )
    yield one(
        "logger: set and described",
        lambda _: alter(LOGGER, own, ("root", SET, "INFO")),
        lambda _: describe((LOGGER, own, ["root"]), synonyms=True, documentation=True),
    )
    yield one(
        "logger: good and bad",
        lambda _: alter(
            LOGGER, own, ("root", SET, "INFO"), ("no.such", SET, "INFO"), validate_only=True
        ),
    )
