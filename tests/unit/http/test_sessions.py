"""Sessions over HTTP: how many there are, and when they end."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from kbroker.http.answers import Receive, Send
from kbroker.http.sessions import Session, SessionLimits, Sessions
from kbroker.sasl.login import Login

ANN = Login(mechanism="PLAIN", username="ann", password="secret")
QUICK = SessionLimits(look_s=0.001)


class Pages:
    """The pages of a session, which are closed with it."""

    def __init__(self) -> None:
        self.is_closed = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.is_closed = True


class Users:
    """Users of whom all is known, and how often that has changed."""

    def __init__(self, limits: SessionLimits) -> None:
        self.changes = 0
        self.gone: set[str] = set()
        self.asked = 0
        self.is_silent = False
        self.sessions = Sessions(lambda *_: Pages(), self._holds, lambda: self.changes, limits)

    async def _holds(self, login: Login) -> bool:
        self.asked += 1
        if self.is_silent:
            self.is_silent = False
            raise TimeoutError
        return login.username not in self.gone


def is_over(session: Session) -> bool:
    assert isinstance(session.pages, Pages)
    return session.ended.is_set() and session.pages.is_closed


async def test_the_session_that_rests_for_longest_makes_room() -> None:
    sessions = Users(SessionLimits(most=2)).sessions
    first, second = sessions.begin(b"1", ANN, 0, ""), sessions.begin(b"2", ANN, 0, "")
    assert sessions.find(b"1") is first
    sessions.begin(b"3", ANN, 0, "")
    assert (len(sessions), is_over(second), is_over(first)) == (2, True, False)
    sessions.end(b"1")
    sessions.end(b"1")
    assert (sessions.find(b"1"), is_over(first)) == (None, True)
    sessions.close()
    assert len(sessions) == 0


async def test_who_logs_in_again_and_again_ends_no_session_of_another() -> None:
    sessions = Users(SessionLimits(most=3)).sessions
    zoe = sessions.begin(b"zoe", Login(mechanism="PLAIN", username="zoe", password="secret"), 0, "")
    anns = [sessions.begin(bytes([key]), ANN, 0, "") for key in range(5)]
    assert not is_over(zoe)
    assert [is_over(each) for each in anns] == [True, True, True, False, False]
    sessions.close()


async def test_sessions_end_when_nobody_asks_and_when_they_are_old() -> None:
    idle = Users(SessionLimits(look_s=0.001, idle_s=0.01)).sessions
    old = Users(SessionLimits(look_s=0.001, longest_s=0.01)).sessions
    ends = [each.begin(b"1", ANN, 0, "") for each in (idle, old)]
    while not all(map(is_over, ends)):
        old.find(b"1")
        await asyncio.sleep(0)


async def test_a_change_of_users_ends_the_sessions_of_those_who_are_gone() -> None:
    users = Users(QUICK)
    zoe = Login(mechanism="PLAIN", username="zoe", password="secret")
    stays, ends = users.sessions.begin(b"1", ANN, 0, ""), users.sessions.begin(b"2", zoe, 0, "")
    users.is_silent = True  # the first time: nobody can say then, and somebody asks again
    users.gone.add("zoe")
    users.changes += 1
    await ends.ended.wait()
    assert is_over(ends)
    # One that was let in before a change that others were asked for already.
    users.gone.add("ann")
    late = users.sessions.begin(b"3", ANN, 0, "")
    await late.ended.wait()
    assert is_over(stays)
    assert users.asked >= 4
    users.sessions.close()


async def test_who_waits_for_something_hears_of_the_end() -> None:
    sessions = Users(QUICK).sessions
    session = sessions.begin(b"1", ANN, 0, "")
    messages: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    receive = session.bounded(messages.get)
    messages.put_nowait({"type": "http.request"})
    assert (await receive())["type"] == "http.request"
    waits = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    sessions.end(b"1")
    assert (await waits)["type"] == "http.disconnect"
