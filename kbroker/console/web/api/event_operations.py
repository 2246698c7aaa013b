"""Operations of the API on what happened lately, as the broker knows it that serves the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kbroker.console.web.api.operation import Given, Operation
from kbroker.console.web.console import Console
from kbroker.console.web.views import NO_VIEWS, BrokerViews
from kbroker.console.web.web_request import Fields, RefusedError
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The last events, the oldest first: `at_ms` is Unix time, `event` and `cause` are names, and
    `message` is a sentence; what else an event has stands beside them.
    """

    events: Sequence[dict[str, Any]]


def views_of(console: Console) -> BrokerViews:
    """Return what the broker knows. Raises RefusedError if no broker serves this console."""
    if console.views is None:
        raise RefusedError(404, NO_VIEWS)
    return console.views


async def _events(console: Console, _given: Given) -> Events:
    return Events(events=await views_of(console).events(None))


async def _events_of_group(console: Console, given: Given) -> Events:
    return Events(events=await views_of(console).events(given.places["group"]))


async def _events_of_partition(console: Console, given: Given) -> Events:
    number = Fields({"partition": [given.places["partition"]]}).number("partition", 0)
    place = TopicPartition(given.places["topic"], number)
    return Events(events=await views_of(console).events(place))


OPERATIONS: Final = (
    Operation(
        name="listEvents",
        path="/events",
        summary="The last hundred events of this broker.",
        answer=Events,
        function=_events,
    ),
    Operation(
        name="listEventsOfGroup",
        path="/groups/{group}/events",
        summary="The last events of a group that this broker coordinates, of a day.",
        answer=Events,
        function=_events_of_group,
    ),
    Operation(
        name="listEventsOfPartition",
        path="/topics/{topic}/partitions/{partition}/events",
        summary="The last events of a partition that this broker knows of, of a day.",
        answer=Events,
        function=_events_of_partition,
    ),
)
