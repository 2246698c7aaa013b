"""Scenarios of groups whose broker assigns the partitions (KIP-848), and of the way to them and back."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.matrix.membership import distinct, join, leave
from compat_tests.matrix.stage import Stage, numbers

NEW = "consumer"
PARTITIONS = 12
EACH = 20  # records of a partition, at a time
ROUND = PARTITIONS * EACH


def new_groups(stage: Stage) -> None:
    """A group of the new protocol: members come and go, commit, and go on"""
    group = _topic(stage)
    join(stage, "one", group, NEW)
    _reads(stage, ROUND, "one")
    join(stage, "two", group, NEW)
    _settled(stage, group, [PARTITIONS // 2] * 2, "one", "two")
    _write(stage, group, 1)
    _reads(stage, 2 * ROUND, "one", "two")
    assert distinct(stage, "two") > 0, "the second member read nothing"
    leave(stage, "one")
    _settled(stage, group, [PARTITIONS], "two")
    before = distinct(stage, "two")
    _write(stage, group, 2)
    _reads(stage, before + ROUND, "two")
    leave(stage, "two")
    _committed(stage, group, 3 * ROUND)
    _write(stage, group, 3)
    join(stage, "three", group, NEW)
    _reads(stage, ROUND, "three")
    again = leave(stage, "three")
    assert len(again) == ROUND, f"the group read {len(again)} records when it went on, not {ROUND}"


def static_members(stage: Stage) -> None:
    """Static members of the new protocol: one is away for a while and gets its partitions again"""
    group = _topic(stage)
    join(stage, "one", group, NEW, instance="a")
    join(stage, "two", group, NEW, instance="b")
    _settled(stage, group, [PARTITIONS // 2] * 2, "one", "two")
    _reads(stage, ROUND, "one", "two")
    before = stage.reference.by_instance(group)
    assert set(before) == {"a", "b"}, f"the instances are {sorted(before)}"
    seen = set(leave(stage, "two"))
    away = stage.reference.by_instance(group)
    assert away == before, f"{before} became {away} when a static member went away"
    _write(stage, group, 1)
    join(stage, "three", group, NEW, instance="b")
    stage.until(
        "all is read",
        lambda: len(seen | _values(stage, "one", "three")) == 2 * ROUND,
    )
    after = stage.reference.by_instance(group)
    assert after == before, f"{before} became {after} when it came back"
    leave(stage, "one")
    leave(stage, "three")


def patterns(stage: Stage) -> None:
    """A pattern of topics that the broker applies: of those that are there, and of one made later"""
    first, other = f"{stage.name}-a", f"{stage.name}-other"
    for topic in (first, other):
        stage.reference.create(topic, 2)
        stage.reference.write(topic, numbers(0 if topic == first else 1_000, 20, 2))
    join(stage, "one", stage.name, NEW, pattern=f"^{stage.name}-[ab]$")
    _reads(stage, 20, "one")
    second = stage.reference.create(f"{stage.name}-b", 2)
    stage.reference.write(second, numbers(20, 20, 2))
    _reads(stage, 40, "one")
    seen = {int(value) for value in leave(stage, "one")}
    assert seen == set(range(40)), f"it read {sorted(seen - set(range(40)))} of another topic"


def change_of_protocol(stage: Stage) -> None:
    """A classic group becomes one of the new protocol and classic again, one member at a time"""
    group = _topic(stage)
    join(stage, "old", group)
    _reads(stage, ROUND, "old")
    join(stage, "new", group, NEW)
    _settled(stage, group, [PARTITIONS // 2] * 2, "old", "new")
    _write(stage, group, 1)
    _reads(stage, 2 * ROUND, "old", "new")
    seen = set(leave(stage, "old"))
    _settled(stage, group, [PARTITIONS], "new")
    _write(stage, group, 2)
    stage.until("all is read", lambda: len(seen | _values(stage, "new")) == 3 * ROUND)
    join(stage, "again", group)
    _settled(stage, group, [PARTITIONS // 2] * 2, "new", "again")
    _write(stage, group, 3)
    stage.until("all is read", lambda: len(seen | _values(stage, "new", "again")) == 4 * ROUND)
    seen |= set(leave(stage, "new"))
    stage.shared(group, [PARTITIONS], "again")  # a classic group again
    _write(stage, group, 4)
    stage.until("all is read", lambda: len(seen | _values(stage, "again")) == 5 * ROUND)
    leave(stage, "again")
    _committed(stage, group, 5 * ROUND)


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "new groups": new_groups,
    "static": static_members,
    "patterns": patterns,
    "change of protocol": change_of_protocol,
}


def _topic(stage: Stage) -> str:
    topic = stage.reference.create(stage.name, PARTITIONS)
    _write(stage, topic, 0)
    return topic


def _write(stage: Stage, topic: str, round_: int) -> None:
    stage.reference.write(topic, numbers(round_ * ROUND, ROUND, PARTITIONS))


def _reads(stage: Stage, count: int, *members: str) -> None:
    who = " and ".join(members)
    stage.until(f"{who} read {count} records", lambda: distinct(stage, *members) >= count)


def _values(stage: Stage, *members: str) -> set[str]:
    return {value for member in members for value in stage.program.ask("seen", member=member)}


def _settled(stage: Stage, group: str, wanted: list[int], *members: str) -> None:
    stage.shared(group, wanted, *members, owned=stage.reference.owned_of_new)


def _committed(stage: Stage, group: str, wanted: int) -> None:
    committed = stage.reference.committed(group)
    assert committed == wanted, f"{committed} records are committed, not {wanted}"
