"""The scenarios: what is sent, what must be read, which errors must come. Each is written once, for
all clients; its docstring is its line in the pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from compat_tests.clients.every_client import samples
from compat_tests.clients.raw_connection import RawConnection
from compat_tests.matrix import new_groups
from compat_tests.matrix.membership import distinct, join, leave
from compat_tests.matrix.serving.serve import Record, to_json
from compat_tests.matrix.stage import LackError, Stage, numbers, same, values

Scenario = Callable[[Stage], None]
CODECS = ("gzip", "snappy", "lz4", "zstd")
PARTITIONS = 12
DESCRIBE_PRODUCERS = 61
UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, MESSAGE_TOO_LARGE = 3, 1, 10
TOPIC_ALREADY_EXISTS = 36
MANY = 50


def records(stage: Stage) -> None:
    """Keys, values, headers and times of all shapes, with acks 0, 1 and all, and records of 900 KB"""
    wanted = _samples(stage, 27)
    mine = stage.reference.create(f"{stage.name}-mine")
    stage.write(mine, wanted)
    _same_both_ways(stage, mine, wanted)
    if stage.has("reading"):
        theirs = stage.reference.create(f"{stage.name}-theirs")
        stage.reference.write(theirs, wanted)
        same(stage.read(theirs, 0, len(wanted)), _placed(stage, wanted), "the client")
    for acks in (0, 1):
        topic = stage.reference.create(f"{stage.name}-acks-{acks}")
        stage.write(topic, wanted, acks=acks)
        stage.arrived(topic, len(wanted))
    if stage.has("large records"):
        large = stage.reference.create(f"{stage.name}-large")
        big = [replace(each, value=b"x" * 900_000, headers=()) for each in wanted[:2]]
        for each in big:
            stage.write(large, [each])  # together they would be too large a batch
        _same_both_ways(stage, large, big)


def codec(name: str) -> Scenario:
    """The scenario of one codec."""

    def scenario(stage: Stage) -> None:
        wanted = [
            Record(0, b"%d" % n, b"%d, a value that is packed" % n * 20, (), _FIRST_MS + n)
            for n in range(300)
        ]
        mine = stage.reference.create(f"{stage.name}-mine")
        stage.write(mine, wanted, codec=name)
        _same_both_ways(stage, mine, wanted)
        if stage.has("reading"):
            theirs = stage.reference.create(f"{stage.name}-theirs")
            stage.reference.write(theirs, wanted, codec=name)
            same(stage.read(theirs, 100, 200), _placed(stage, wanted)[100:], "the client")

    scenario.__doc__ = f"300 records packed with {name}, read from the start and from the middle"
    return scenario


def seek(stage: Stage) -> None:
    """The first and the last offset, and reading from one that is chosen"""
    topic = stage.reference.create(stage.name)
    stage.reference.write(topic, numbers(0, 100))
    assert values(stage.read(topic, 60, 40)) == [str(n) for n in range(60, 100)]
    assert values(stage.read(topic, 99, 1)) == ["99"]
    if stage.has("ends"):
        ends = stage.program.ask("ends", topic=topic)
        assert ends == [0, 100], f"the offsets go from {ends[0]} to {ends[1]}, not from 0 to 100"


def times(stage: Stage) -> None:
    """Offsets by time: at a record, between two, and before the first"""
    topic = stage.reference.create(stage.name)
    spaced = [Record(0, None, b"%d" % n, (), _FIRST_MS + 10 * n) for n in range(100)]
    stage.reference.write(topic, spaced)
    for after_ms, offset in ((420, 42), (425, 43), (-1_000, 0), (990, 99)):
        found = stage.program.ask("offset_at", topic=topic, timestamp=_FIRST_MS + after_ms)
        assert found == offset, f"{after_ms} ms after the first is offset {found}, not {offset}"


def groups(assignor: str) -> Scenario:
    """The scenario of groups with one kind of assignors."""

    def scenario(stage: Stage) -> None:
        topic = group = stage.reference.create(stage.name, PARTITIONS)
        stage.reference.write(topic, numbers(0, 240, PARTITIONS))
        join(stage, "one", group, assignor)
        stage.until("the first member reads 240 records", lambda: distinct(stage, "one") == 240)
        join(stage, "two", group, assignor)
        stage.shared(group, [PARTITIONS // 2] * 2, "one", "two")
        stage.reference.write(topic, numbers(240, 240, PARTITIONS))
        stage.until("both read 480 records", lambda: distinct(stage, "one", "two") == 480)
        assert distinct(stage, "two") > 0, "the second member read nothing"
        before = set(leave(stage, "one"))
        stage.shared(group, [PARTITIONS], "two")
        stage.reference.write(topic, numbers(480, 120, PARTITIONS))
        stage.until(
            "the second member reads the rest",
            lambda: len(before | set(stage.program.ask("seen", member="two"))) == 600,
        )
        leave(stage, "two")
        committed = stage.reference.committed(group)
        assert committed == 600, f"{committed} records are committed, not 600"
        stage.reference.write(topic, numbers(600, 60, PARTITIONS))
        join(stage, "three", group, assignor)
        stage.until("the group goes on", lambda: distinct(stage, "three") == 60)
        again = leave(stage, "three")
        assert len(again) == 60, f"the group read {len(again)} records when it went on, not 60"

    kind = "range or round robin" if assignor == "eager" else "cooperative"
    scenario.__doc__ = f"A group ({kind}): members come and go, commit, and go on"
    return scenario


def group_admin(stage: Stage) -> None:
    """Groups listed, described, with their offsets, and deleted"""
    topic = group = stage.reference.create(stage.name, 2)
    stage.reference.write(topic, numbers(0, 30, 2))
    if stage.can("groups"):
        join(stage, "one", group)
        stage.until("the member reads", lambda: distinct(stage, "one") == 30)
        stage.shared(group, [2], "one")
        described = stage.program.ask("describe_group", group=group)
        assert described["members"] == 1, f"the group has {described['members']} members, not 1"
        assert described["state"].upper() == "STABLE", f"the group is {described['state']}"
        leave(stage, "one")
    else:
        raise LackError(stage.client.lacks["groups"])
    listed = stage.program.ask("groups")
    assert group in listed, "the group is not listed"
    committed = stage.program.ask("committed", group=group, topic=topic)
    assert committed == 30, f"{committed} records are committed, not 30"
    described = stage.program.ask("describe_group", group=group)
    assert described["state"].upper() == "EMPTY", f"the group is {described['state']}"
    if stage.has("deleting groups"):
        stage.program.ask("delete_group", group=group)
        assert group not in stage.program.ask("groups"), "the group is still there"


def topics(stage: Stage) -> None:
    """Topics made with settings, listed, described and deleted, 50 at once"""
    ask, name = stage.program.ask, stage.name
    ask("create", topics=[name], partitions=3, config={"retention.ms": "600000"})
    stage.until("the topic is listed", lambda: name in ask("topics"))
    assert ask("partitions", topic=name) == 3
    if stage.has("settings"):
        assert ask("config", topic=name, name="retention.ms") == "600000"
        assert ask("config", topic=name, name="cleanup.policy") == "delete"
    many = [f"{name}-{number}" for number in range(MANY)]
    ask("create", topics=many, partitions=2, config={})
    stage.until("all topics are listed", lambda: set(many) <= set(ask("topics")))
    ask("delete", topics=[name, *many])
    stage.until("all topics are gone", lambda: not {name, *many} & set(ask("topics")))


def deleting_records(stage: Stage) -> None:
    """Records deleted up to an offset"""
    topic = stage.reference.create(stage.name)
    stage.reference.write(topic, numbers(0, 100))
    low = stage.program.ask("delete_records", topic=topic, before=42)
    assert low in (42, None), f"the partition begins at {low}, not at 42"
    assert stage.reference.ends(topic) == [42, 100]
    assert values(stage.read(topic, 42, 58)) == [str(n) for n in range(42, 100)]


def idempotence(stage: Stage) -> None:
    """An idempotent producer, whose id and sequence numbers the broker knows"""
    topic = stage.reference.create(stage.name)
    wanted = numbers(0, 200)
    stage.program.ask(
        "write", topic=topic, records=[to_json(each) for each in wanted],
        codec="none", acks=-1, idempotent=True,
    )  # fmt: skip
    assert values(stage.reference.read(topic)) == values(wanted)
    connection = RawConnection(stage.reference.leader(topic))
    asked = [{"name": topic, "partition_indexes": [0]}]
    described = connection.call(DESCRIBE_PRODUCERS, 0, topics=asked)
    connection.close()
    producers = described.topics[0].partitions[0].active_producers
    last = [producer.last_sequence for producer in producers]
    assert last == [199], f"the last sequence numbers of producers are {last}, not [199]"


def transactions(stage: Stage) -> None:
    """Transactions committed and aborted, and what read_committed and read_uncommitted see"""
    topic = stage.reference.create(stage.name)
    three = [(["0", "1", "2"], True), (["3", "4", "5"], False), (["6", "7", "8"], True)]
    if stage.has("writing transactions"):
        told = [{"values": texts, "commit": commit} for texts, commit in three]
        stage.program.ask("transact", name=stage.name, topic=topic, transactions=told)
    else:
        stage.reference.transact(stage.name, topic, three)
    everything = [str(n) for n in range(9)]
    stage.arrived(topic, 12)  # with the markers
    assert values(stage.reference.read(topic)) == everything
    committed = values(stage.read(topic, 0, 6, committed=True))
    assert committed == ["0", "1", "2", "6", "7", "8"], f"committed are {committed}"
    if stage.has("reading uncommitted"):
        found = values(stage.read(topic, 0, 9))
        assert found == everything, f"written are {found}"


def errors(stage: Stage) -> None:
    """The codes of refusals: too large, out of range, a topic that exists, one that does not"""
    topic = stage.reference.create(stage.name, max_message_bytes="1000")
    stage.reference.write(topic, numbers(0, 10))
    asked = 0
    if stage.has("too large"):
        asked += 1
        large = [to_json(Record(0, None, b"x" * 5_000, (), _FIRST_MS))]
        code = stage.error_of(
            "write", topic=topic, records=large, codec="none", acks=-1, idempotent=False
        )
        assert code == MESSAGE_TOO_LARGE, f"a record that is too large gets code {code}, not 10"
    if stage.has("out of range"):
        asked += 1
        code = stage.error_of("read", topic=topic, start=5_000, count=1, committed=False)
        assert code == OFFSET_OUT_OF_RANGE, f"an offset out of range gets code {code}, not 1"
    if stage.can("topics"):
        asked += 1
        code = stage.error_of("create", topics=[topic], partitions=1, config={})
        assert code == TOPIC_ALREADY_EXISTS, f"a topic that exists gets code {code}, not 36"
        code = stage.error_of("delete", topics=[f"{topic}-unknown"])
        assert code == UNKNOWN_TOPIC_OR_PARTITION, f"an unknown topic gets code {code}, not 3"
    if not asked:
        raise LackError("; ".join(stage.notes))


def restart(stage: Stage) -> None:
    """The broker restarts while the client writes and reads in a group: nothing is lost"""
    topic = stage.reference.create(stage.name)
    idempotent = stage.can("idempotence")
    grouped = stage.can("groups")
    if grouped:
        join(stage, "one", topic)
        stage.shared(topic, [1], "one")
    wanted = numbers(0, 40)
    stage.program.begin(
        "write", topic=topic, records=[to_json(each) for each in wanted],
        codec="none", acks=-1, idempotent=idempotent, pause_ms=50,
    )  # fmt: skip
    stage.until("some records are written", lambda: stage.reference.ends(topic)[1] >= 5)
    stage.target.restart()
    stage.program.finish()
    found = values(stage.reference.read(topic))
    assert sorted(set(found), key=int) == values(wanted), f"{len(set(found))} of 40 are there"
    if idempotent:
        assert found == values(wanted), f"{len(found)} records were stored instead of 40"
    if grouped:
        stage.until("the member reads all", lambda: distinct(stage, "one") == 40)
        leave(stage, "one")


_FIRST_MS = (int(time.time()) - 3_600) * 1_000  # much older ones may be deleted at any moment

SCENARIOS: dict[str, Scenario] = {
    "records": records,
    **{name: codec(name) for name in CODECS},
    "seek": seek,
    "times": times,
    "groups": groups("eager"),
    "cooperative groups": groups("cooperative"),
    **new_groups.SCENARIOS,
    "group admin": group_admin,
    "topics": topics,
    "deleting records": deleting_records,
    "idempotence": idempotence,
    "transactions": transactions,
    "errors": errors,
    "restart": restart,
}


def _samples(stage: Stage, count: int) -> list[Record]:
    """Records of all shapes that the client has."""
    kept = [
        Record(0, s.key, s.value, s.headers, s.timestamp_ms)
        for s in samples(count, null_headers=stage.has("null headers"))
    ]
    if not stage.has("headers"):
        kept = [replace(each, headers=()) for each in kept]
    if not stage.has("repeated headers"):
        kept = [each for each in kept if _has_own_names(each)]
    if not stage.has("binary headers"):
        kept = [each for each in kept if all(_is_text(value) for _, value in each.headers)]
    if not stage.has("empty header names"):
        kept = [each for each in kept if all(name for name, _ in each.headers)]
    if not stage.has("empty keys"):
        kept = [each for each in kept if each.key != b""]
    if not stage.has("empty values"):
        kept = [each for each in kept if each.value != b""]
    if not stage.has("null values"):
        kept = [each for each in kept if each.value is not None]
    stage.has("timestamps")
    return kept


def _has_own_names(record: Record) -> bool:
    return len({name for name, _ in record.headers}) == len(record.headers)


def _is_text(value: bytes | None) -> bool:
    return value is None or (value.isascii() and b"\0" not in value)


def _placed(stage: Stage, wanted: list[Record]) -> list[Record]:
    return [stage.seen_through(replace(each, offset=n)) for n, each in enumerate(wanted)]


def _same_both_ways(stage: Stage, topic: str, wanted: list[Record]) -> None:
    """Compare what the client wrote with what the runner and the client read."""
    placed = _placed(stage, wanted)
    found = [stage.seen_through(each) for each in stage.reference.read(topic)]
    same(found, placed, "the runner")
    if stage.has("reading"):
        same(stage.read(topic, 0, len(wanted)), placed, "the client")
