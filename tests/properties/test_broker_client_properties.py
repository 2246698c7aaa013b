"""Callers of one connection between brokers send, give up and are answered or cut off in any order:
each gets the answer to its own request or an error, and never another's.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.model import EndPoint
from kbroker.peers.broker_client import BrokerClient
from kbroker.peers.way import Way
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.fakes.requests.scripted_peer import SILENCE, ScriptedPeer, answer_frame

END_POINT = EndPoint(listener_name="PLAINTEXT", host="other", port=9092)
IN_FLIGHT_MAX = 3
steps = st.one_of(
    st.just(("send", 0)),
    st.tuples(st.just("give up"), st.integers(0, 30)),
    st.tuples(st.just("answer"), st.sampled_from([1, 5, 100, 40_000, 200_000])),
    st.just(("cut", 0)),
    st.just(("close", 0)),
)


class Callers:
    """What they asked, and what came of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, RequestHeader, int]] = []  # connection, request, caller
        self.peer = ScriptedPeer(self._ask)
        self.client = BrokerClient(
            END_POINT,
            "1",
            60_000,
            way=Way(self.peer.connect),
            in_flight_max=IN_FLIGHT_MAX,
            reconnect_backoff_ms=0,
        )
        self.tasks: list[asyncio.Task[Any]] = []

    def _ask(self, header: RequestHeader, request: Any) -> object:
        self.asked.append((len(self.peer.connections), header, request.generation_id))
        return SILENCE

    async def step(self, what: str, amount: int) -> None:
        if what == "send":
            request = SyncGroupRequest(generation_id=len(self.tasks))
            self.tasks.append(asyncio.create_task(self.client.send(request)))
        elif what == "give up" and self.tasks:
            self.tasks[amount % len(self.tasks)].cancel()
        elif what == "answer":
            self._answer(amount)
        elif what == "cut" and self.peer.connections:
            self.peer.connections[-1].cut()
        elif what == "close":
            self.client.close()
        for _ in range(12):
            await asyncio.sleep(0)

    def _answer(self, size: int) -> None:
        """Answer the oldest request of the present connection, in an answer of about that size."""
        number = len(self.peer.connections)
        place = next((n for n, entry in enumerate(self.asked) if entry[0] == number), None)
        if place is None:
            return
        _, header, caller = self.asked.pop(place)
        assignment = caller.to_bytes(4) * size
        frame = answer_frame(header, SyncGroupResponse(assignment=assignment))
        data = len(frame).to_bytes(4) + frame
        for start in range(0, len(data), 30_000):
            self.peer.connections[-1].feed(data[start : start + 30_000])

    def check(self) -> None:
        for caller, task in enumerate(self.tasks):
            if not task.done() or task.cancelled():
                continue
            error = task.exception()
            assert error is None or isinstance(error, ConnectionError)
            if error is None:
                assignment = bytes(task.result().assignment)
                assert assignment == caller.to_bytes(4) * (len(assignment) // 4)
                assert assignment
        number = len(self.peer.connections)
        unanswered = sum(connection == number for connection, _, _ in self.asked)
        assert unanswered <= IN_FLIGHT_MAX or self.peer.connections[-1].is_aborted


@settings(deadline=None)
@given(st.lists(steps, max_size=40))
async def test_nobody_gets_the_answer_of_another(script: list[tuple[str, int]]) -> None:
    callers = Callers()
    for what, amount in script:
        await callers.step(what, amount)
        callers.check()
    for task in callers.tasks:
        task.cancel()
    await asyncio.gather(*callers.tasks, return_exceptions=True)
    callers.client.close()


@settings(max_examples=50, deadline=None)
@given(st.lists(steps, max_size=25))
async def test_whatever_happened_the_next_request_is_answered(
    script: list[tuple[str, int]],
) -> None:
    callers = Callers()
    for what, amount in script:
        await callers.step(what, amount)
    for task in callers.tasks:
        task.cancel()
    await asyncio.gather(*callers.tasks, return_exceptions=True)
    callers.tasks.clear()
    callers.asked.clear()
    callers.client.close()
    await callers.step("send", 0)
    await callers.step("answer", 1)
    assert callers.tasks[0].done()
    assert callers.tasks[0].exception() is None
