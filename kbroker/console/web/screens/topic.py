"""One topic: its partitions, the groups that read it, and what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kbroker.console.topic import (
    PartitionRow,
    ReadingGroup,
    TopicDetails,
    groups_of_topic,
    topic,
)
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import Column, facts, link, number, size, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.events_table import events_table
from kbroker.console.web.screens.group_frame import group_link
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.views import NO_VIEWS
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.model import TopicPartition
from kbroker.wording import counted

_REFRESH_S = 10
_MOST_HISTORIES = 100
_PARTITION_COLUMNS = (
    Column("Partition", is_number=True),
    Column("Leader", is_number=True),
    Column("Epoch", is_number=True),
    Column("Replicas"),
    Column("In sync"),
    Column("Start offset", is_number=True),
    Column("End offset", is_number=True),
    Column("Records", is_number=True),
    Column("Size", is_number=True),
)
_GROUP_COLUMNS = (
    Column("Group"),
    Column("State"),
    Column("Partitions", is_number=True),
    Column("Lag", is_number=True),
)


async def show_topic(console: Console, request: WebRequest) -> Answer:
    """Show the partitions of a topic. Raises NotFoundError if there is none, ClientError."""
    name = request.places["topic"]
    found = await topic(console.cluster, name)
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, ""),
            facts(_facts(found)),
            table(
                "Partitions",
                _PARTITION_COLUMNS,
                [_partition(console, name, row) for row in found.partitions],
                "None.",
            ),
        ),
        gaps=found.gaps,
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)


async def show_groups(console: Console, request: WebRequest) -> Answer:
    """Show the groups that read a topic. Raises NotFoundError if there is none, ClientError."""
    name = request.places["topic"]
    found = await groups_of_topic(console.cluster, name)
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, "groups"),
            table("Groups", _GROUP_COLUMNS, map(_group, found.groups), "No group reads it."),
        ),
        gaps=found.gaps,
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)


async def show_history(console: Console, request: WebRequest) -> Answer:
    """Show what happened to the partitions of a topic, or to one of them. Raises NotFoundError,
    RefusedError for what is not a number, ClientError.
    """
    name, chosen = request.places["topic"], request.query.optional_number("partition")
    found = await topic(console.cluster, name)
    numbers = [row.partition for row in found.partitions] if chosen is None else [chosen]
    shown, left_out = numbers[:_MOST_HISTORIES], len(numbers[_MOST_HISTORIES:])
    gap = f"{counted(left_out, 'more partition')}: open one in the list of partitions"
    content = PageContent(
        title=name,
        body=(topic_frame(console, name, "history"), await _history(console, name, shown)),
        gaps=(gap,) if left_out else (),
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)


async def _history(console: Console, name: str, numbers: Sequence[int]) -> Child:
    if console.views is None:
        return element("p", f"What happened to a topic is {NO_VIEWS}.", class_="empty")
    events: list[dict[str, Any]] = []
    for partition in numbers:
        events += await console.views.events(TopicPartition(name, partition))
    said = element("p", "As far as this broker knows, of the last day.", class_="quiet")
    return (said, events_table(events))


def _facts(found: TopicDetails) -> list[tuple[str, Child]]:
    return [
        ("Partitions", number(found.partition_count)),
        ("Records", number(found.records)),
        ("Size", size(found.size_bytes)),
        ("Topic id", found.topic_id or "none"),
        ("Kafka's own", "yes" if found.is_internal else "no"),
    ]


def _partition(console: Console, name: str, row: PartitionRow) -> tuple[Child, ...]:
    leader = str(row.leader) if row.leader is not None else _bad("none")
    records: Child = number(row.records)
    if row.records and not console.options.no_messages:
        records = link(records, address("topics", name, "messages", partitions=row.partition))
    return (
        link(str(row.partition), address("topics", name, "history", partition=row.partition)),
        leader,
        number(row.leader_epoch),
        _ids(row.replicas),
        _ids(row.isr) if len(row.isr) == len(row.replicas) else _warn(_ids(row.isr)),
        number(row.start_offset),
        number(row.end_offset),
        records,
        size(row.size_bytes),
    )


def _group(row: ReadingGroup) -> tuple[Child, ...]:
    return (
        group_link(row.group),
        row.state or "",
        number(row.partitions),
        number(row.lag),
    )


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids))


def _bad(text: str) -> Html:
    return element("span", text, class_="bad")


def _warn(text: str) -> Html:
    return element("span", text or "none", class_="warn")


ROUTES: Final = (
    WebRoute(pattern=PATH, respond=show_topic),
    WebRoute(pattern=f"{PATH}/groups", respond=show_groups),
    WebRoute(pattern=f"{PATH}/history", respond=show_history),
)
