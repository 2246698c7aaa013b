from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kbroker.network import strangers
from kbroker.network.channel import Channel
from kbroker.network.strangers import DELAY_DOUBLES_MAX, FREE_FAILURES, Strangers
from tests.fakes.requests.scripted_channel import ScriptedChannel


def channel_from(host: str) -> Channel:
    scripted = ScriptedChannel()
    scripted.connection.peer_host = host
    return cast(Channel, scripted)


async def test_the_oldest_of_the_address_with_most_of_them_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_MAX", 3)
    closed: list[Channel] = []
    its = Strangers(lambda channel, _: closed.append(channel))
    one, *many = (channel_from(host) for host in ("1.1.1.1", "2.2.2.2", "2.2.2.2", "2.2.2.2"))

    for channel in (one, *many):
        its.came(channel)
    assert (closed, len(its)) == ([many[0]], 3)
    its.left(one)
    its.left(one)
    its.came(channel_from("3.3.3.3"))
    assert (closed, len(its)) == ([many[0]], 3)


async def test_addresses_of_ipv6_that_one_machine_may_have_count_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_MAX", 3)
    closed: list[Channel] = []
    its = Strangers(lambda channel, _: closed.append(channel))
    other, *many = map(
        channel_from, ("2001:db9::1", "2001:db8::1", "2001:db8::2%eth0", "2001:db8::3")
    )

    for channel in (other, *many):
        its.came(channel)
    for channel in (other, *many):
        its.left(channel)

    assert (closed, len(its)) == ([many[0]], 0)
    for _ in range(FREE_FAILURES):
        its.failed("2001:db8::4", 1.0)
    assert its.failed("2001:db8::5", 1.0) == 200.0
    assert its.failed("2001:db9::5", 1.0) == 100.0


async def test_who_does_not_log_in_in_time_is_closed() -> None:
    closed: list[tuple[Channel, str]] = []
    its = Strangers(lambda *why: closed.append(why))
    late, known = channel_from("1.1.1.1"), channel_from("1.1.1.1")

    its.came(late, strangers.DEADLINE_MS - 1)
    its.came(known, strangers.DEADLINE_MS - 1)
    its.left(known)
    await asyncio.sleep(0.003)

    assert closed == [(late, strangers.NO_LOGIN)]
    assert len(its) == 0


def test_answers_to_wrong_passwords_wait_longer_the_more_come_from_an_address() -> None:
    its = Strangers(lambda *_: None)

    waits = [its.failed("1.1.1.1", 1.0) for _ in range(FREE_FAILURES + 9)]

    assert waits[: FREE_FAILURES + 3] == [100.0] * FREE_FAILURES + [200.0, 400.0, 800.0]
    assert waits[-1] == 100.0 * 2**DELAY_DOUBLES_MAX
    assert its.failed("2.2.2.2", 1.0) == 100.0
    assert its.failed("1.1.1.1", 60_001.0) == 100.0
