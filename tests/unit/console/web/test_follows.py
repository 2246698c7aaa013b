from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kbroker.console.web.follows import KEPT_S, MOST, SHOWN, Follows, follow_once
from kbroker.console.web.views import BrokerViews
from kbroker.tracing.trace_entry import AskedFor, Asker, TraceEntry
from kbroker.tracing.trace_filter import TraceFilter
from kbroker.tracing.trace_reader import Taken

ASKER = Asker(client_id="c", host="h", port=1, software="s", principal="p", listener="l")
ENTRY = TraceEntry(
    at_ms=0, took_ns=1, api="Fetch", version=1, correlation_id=1, asker=ASKER, asked=AskedFor(),
    request_bytes=1, answer_bytes=1,
)  # fmt: skip


class Views:
    """A broker that is followed: `next` is what it gives at the next look."""

    def __init__(self) -> None:
        self.open: list[Any] = []
        self.next = Taken(0, ())

    async def follow(self, wanted: TraceFilter) -> Any:
        (topic,) = wanted.topics.texts
        views = self

        class _Followed:
            async def take(self) -> Taken:
                return views.next

            def close(self) -> None:
                views.open.remove(topic)

        self.open.append(topic)
        return _Followed()


def of_topic(name: str) -> dict[str, list[str]]:
    return {"topic": [name]}


@pytest.mark.virtual_time
async def test_a_filter_is_followed_for_as_long_as_somebody_looks() -> None:
    views, follows = Views(), Follows()
    asked = cast(BrokerViews, views)
    views.next = Taken(3, (ENTRY,) * 2)
    for _ in range(5):
        follow = await follows.look(asked, of_topic("a"))
        await asyncio.sleep(KEPT_S - 1)
    assert (follow.seen, follow.missed, len(follow.entries)) == (25, 15, 10)
    await follows.look(asked, of_topic("b"))
    assert views.open == ["a", "b"]

    await asyncio.sleep(2)
    assert views.open == ["b"]
    await asyncio.sleep(KEPT_S)
    assert views.open == []
    assert len(follows) == 0


@pytest.mark.virtual_time
async def test_what_is_followed_is_bounded() -> None:
    views, follows = Views(), Follows()
    asked = cast(BrokerViews, views)
    views.next = Taken(0, (ENTRY,) * (SHOWN + 1))
    for number in range(MOST + 2):
        follow = await follows.look(asked, of_topic(f"{number}"))
    assert len(follow.entries) == SHOWN
    assert views.open == [f"{number}" for number in range(2, MOST + 2)]
    follows.close()
    assert views.open == []


@pytest.mark.virtual_time
async def test_a_program_gets_what_comes_next_or_nothing_in_the_end() -> None:
    views = Views()
    asked = cast(BrokerViews, views)
    wanted = TraceFilter.of(of_topic("a"))
    began_s = asyncio.get_running_loop().time()
    assert (await follow_once(asked, wanted, 2.0)).seen == 0
    assert asyncio.get_running_loop().time() - began_s >= 2.0
    views.next = Taken(0, (ENTRY,))
    assert list((await follow_once(asked, wanted, 2.0)).entries) == [ENTRY]
    assert views.open == []
