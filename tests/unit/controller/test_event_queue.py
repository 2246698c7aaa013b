"""Events are worked one at a time; who asks is answered, or hears why not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kbroker.controller.event_queue import EventQueue
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.events import Event
from kbroker.errors import ErrorCode, KafkaError

A, B, C = events.BrokerChange(), events.TopicChange(), events.TopicDeletion()


@asynccontextmanager
async def working(process: Callable[[Event], Awaitable[object]]) -> AsyncIterator[EventQueue]:
    queue = EventQueue(process)
    queue.start()
    yield queue
    await queue.stop()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_event_put_first_overtakes_those_that_wait() -> None:
    worked: list[Event] = []

    async def process(event: Event) -> None:
        worked.append(event)

    async with working(process) as queue:
        queue.put(A)
        queue.put(B)
        queue.put_first(C)
        await turns()

    assert worked == [C, A, B]


async def test_no_event_begins_while_the_queue_rests_and_none_is_lost() -> None:
    worked: list[Event] = []
    gate = asyncio.Event()

    async def process(event: Event) -> None:
        worked.append(event)
        await gate.wait()

    async with working(process) as queue:
        queue.put(A)
        queue.put(B)
        await turns()
        queue.rest()
        gate.set()  # the event in work is not interrupted
        await turns()
        assert worked == [A]
        queue.wake()
        await turns()

    assert worked == [A, B]


async def test_who_asks_is_answered() -> None:
    async def process(event: Event) -> object:
        if event is B:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        return "done"

    async with working(process) as queue:
        assert await queue.ask(A) == "done"
        with pytest.raises(KafkaError) as refused:
            await queue.ask(B)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


async def test_an_event_that_is_dropped_refuses_who_asked_and_the_others_stay() -> None:
    worked: list[Event] = []

    async def process(event: Event) -> None:
        worked.append(event)

    async with working(process) as queue:
        queue.rest()
        asked = [asyncio.create_task(queue.ask(event)) for event in (A, B)]
        await turns()
        queue.drop(lambda event: event is A)
        queue.wake()
        with pytest.raises(KafkaError) as refused:
            await asked[0]
        await asked[1]
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    assert worked == [B]


async def test_a_stop_refuses_those_who_wait_also_for_the_event_in_work() -> None:
    async def process(_event: Event) -> None:
        await asyncio.Event().wait()

    async with working(process) as queue:
        asked = [asyncio.create_task(queue.ask(event)) for event in (A, B)]
        await turns()
        await queue.stop()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        codes = [o.code for o in outcomes if isinstance(o, KafkaError)]
        assert codes == [ErrorCode.NOT_CONTROLLER] * 2


async def test_who_no_longer_waits_stops_nothing() -> None:
    worked: list[Event] = []

    async def process(event: Event) -> None:
        worked.append(event)
        await asyncio.sleep(0)

    async with working(process) as queue:
        asked = asyncio.create_task(queue.ask(A))
        await asyncio.sleep(0)
        asked.cancel()
        await queue.ask(B)

    assert worked == [A, B]


async def test_a_refusal_nobody_waits_for_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def process(event: Event) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER) if event is A else ValueError("planted")

    with caplog.at_level(logging.DEBUG):
        async with working(process) as queue:
            queue.put(A)
            queue.put(B)
            await turns()

    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        f"event {B} failed"
    ]
