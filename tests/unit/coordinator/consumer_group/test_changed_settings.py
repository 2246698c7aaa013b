"""Settings of a group that change while it is at work: they count from the next heartbeat on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.brokers.consumer_groups import MemberOf, Settings, consumer_groups
from tests.fakes.brokers.group_broker import GroupBroker


class Changing:
    """A broker whose groups have settings that a test changes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        services = replace(consumer_groups(), settings_of=lambda _: self.settings)
        self.broker = GroupBroker(consumer_groups=services)

    def has(self, member: MemberOf) -> bool:
        return member.member_id in self.broker.groups.store.find("g").group.members


@pytest.mark.parametrize(("before_ms", "after_ms"), [(60_000, 10_000), (10_000, 60_000)])
def test_a_session_is_as_long_as_the_setting_of_the_last_heartbeat(
    before_ms: int, after_ms: int
) -> None:
    changing = Changing(Settings(session_timeout_ms=before_ms))
    member = MemberOf(changing.broker, "m1")
    member.join()
    changing.settings = Settings(session_timeout_ms=after_ms)
    member.beat()

    changing.broker.time.advance(after_ms - 1)
    assert changing.has(member)
    changing.broker.time.advance(1)
    assert not changing.has(member)


def test_members_hear_of_another_interval_of_heartbeats() -> None:
    changing = Changing(Settings(heartbeat_interval_ms=5_000))
    member = MemberOf(changing.broker, "m1")
    assert member.join().heartbeat_interval_ms == 5_000

    changing.settings = Settings(heartbeat_interval_ms=7_000)

    assert member.beat().heartbeat_interval_ms == 7_000


def test_a_target_comes_when_the_interval_of_now_is_over() -> None:
    changing = Changing(Settings(assignment_interval_ms=15_000))
    first, second = MemberOf(changing.broker, "m1"), MemberOf(changing.broker, "m2")
    first.join()
    second.join()
    assert second.epoch == 2

    changing.settings = Settings(assignment_interval_ms=3_000)
    changing.broker.time.advance(2_999)
    assert second.beat([]).member_epoch == 2
    changing.broker.time.advance(1)
    assert second.beat([]).member_epoch == 3

    changing.settings = Settings(assignment_interval_ms=15_000)
    third = MemberOf(changing.broker, "m3")
    third.join()
    assert third.epoch == 3
    changing.settings = Settings(assignment_interval_ms=0)
    assert third.beat([]).member_epoch == 4


def test_a_clock_that_is_behind_keeps_nobody_from_a_target() -> None:
    services = consumer_groups(Settings(assignment_interval_ms=1_000))
    broker = GroupBroker(consumer_groups=services)
    broker.time.advance(3_600_000)
    MemberOf(broker, "m1").join()

    moved = broker.restarted(consumer_groups=services)

    assert MemberOf(moved, "m2").join().member_epoch == 3
