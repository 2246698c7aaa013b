"""`/api/events`: what happened lately to a group, to a partition, or to all, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kbroker.events.history import Noted, row_of
from kbroker.http.answers import JSON, Answer, said
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.routes import Request, Route
from kbroker.model import TopicPartition

ANSWER_S: Final = 1.0  # how long the broker's loop may take to answer
PATH: Final = "/api/events"

LookAtEvents = Callable[[str | TopicPartition | None], Iterator[Noted]]
"""Yields the last events of a group, a partition, or all (None), the oldest first; called on the
broker's loop."""


def event_routes(loop: BrokerLoop, look: LookAtEvents) -> dict[str, Route]:
    """The routes of what happened, by path."""

    async def events(request: Request) -> Answer:
        try:
            subject = _subject(request.query)
        except ValueError as error:
            return said(400, str(error))
        try:
            found = await loop.collect(lambda: look(subject), ANSWER_S)
        except TimeoutError:
            return said(503, f"the broker's event loop has not answered for {ANSWER_S:g} s")
        body = json.dumps({"events": [row_of(noted) for noted in found]}, indent=2).encode()
        return Answer(body=body + b"\n", content_type=JSON)

    return {PATH: Route(answer=events)}


def _subject(query: Mapping[str, list[str]]) -> str | TopicPartition | None:
    unknown = sorted(set(query) - {"group", "topic", "partition"})
    if unknown:
        raise ValueError(f"no such field: {unknown[0]!a}; there are group, topic, partition")
    group, topic, number = (query.get(name, [""])[-1] for name in ("group", "topic", "partition"))
    if group:
        if topic or number:
            raise ValueError("group excludes topic and partition")
        return group
    if not topic and not number:
        return None
    if not topic or not number.isdecimal() or not number.isascii() or len(number) > 10:
        raise ValueError("topic and partition go together, and partition is a number")
    return TopicPartition(topic, int(number))
