"""One group: its offsets and lag by partition, its members, and what happened to it."""

from __future__ import annotations

from typing import Final

from kbroker.client.consumer_groups import GroupEpochs, epochs_shown
from kbroker.console.groups import GroupDetails, GroupPartition, MemberRow, group
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element, joined
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import UNKNOWN, Column, facts, link, number, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.events_table import events_table
from kbroker.console.web.screens.group_frame import PATH, group_frame
from kbroker.console.web.screens.groups import state_of
from kbroker.console.web.views import NO_VIEWS
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.model import TopicPartition
from kbroker.wording import named

_REFRESH_S = 5
_MOST_ROWS = 1_000
_MOST_NAMED = 20
_PARTITION_COLUMNS = (
    Column("Topic"),
    Column("Partition", is_number=True),
    Column("Committed", is_number=True),
    Column("End", is_number=True),
    Column("Lag", is_number=True),
    Column("Read by"),
)
_MEMBER_COLUMNS = (
    Column("Member"),
    Column("Client id"),
    Column("Host"),
    Column("Instance id"),
    Column("Partitions"),
)
_NEW_MEMBER_COLUMNS = (
    *_MEMBER_COLUMNS,
    Column("Shall have"),
    Column("Epoch", is_number=True),
    Column("Protocol"),
)


async def show_group(console: Console, request: WebRequest) -> Answer:
    """Show how far a group is. Raises NotFoundError if there is none, ClientError."""
    name = request.places["group"]
    found = await group(console.cluster, name)
    readers = {each.member_id: each for each in found.members}
    rows = [_partition(each, readers) for each in found.partitions[:_MOST_ROWS]]
    content = PageContent(
        title=name,
        body=(
            group_frame(console, name, ""),
            facts(_facts(found)),
            table("Offsets", _PARTITION_COLUMNS, rows, "It has committed nothing."),
            _more(len(found.partitions), "partitions"),
        ),
        gaps=found.gaps,
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)


async def show_members(console: Console, request: WebRequest) -> Answer:
    """Show the members of a group. Raises NotFoundError if there is none, ClientError."""
    name = request.places["group"]
    found = await group(console.cluster, name)
    is_new = found.epoch is not None
    rows = map(_new_member if is_new else _member, found.members[:_MOST_ROWS])
    content = PageContent(
        title=name,
        body=(
            group_frame(console, name, "members"),
            facts(_facts(found)),
            table(
                "Members", _NEW_MEMBER_COLUMNS if is_new else _MEMBER_COLUMNS, rows, "No members."
            ),
            _more(len(found.members), "members"),
        ),
        gaps=found.gaps,
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)


async def show_history(console: Console, request: WebRequest) -> Answer:
    """Show what happened to a group, also to one that has gone. Raises ClientError."""
    name = request.places["group"]
    shown: Child
    if console.views is None:
        shown = element("p", f"What happened to a group is {NO_VIEWS}.", class_="empty")
    else:
        events = await console.views.events(name)
        shown = (
            element("p", "As far as this broker knows, of the last day.", class_="quiet"),
            events_table(events),
        )
    content = PageContent(
        title=name,
        body=(group_frame(console, name, "history"), shown),
        refresh_s=None if console.views is None else _REFRESH_S,
    )
    return page(console, request, content)


def _facts(found: GroupDetails) -> list[tuple[str, Child]]:
    epochs: list[tuple[str, Child]] = []
    if found.epoch is not None and found.target_epoch is not None:
        epochs.append(("Epoch", epochs_shown(GroupEpochs(found.epoch, found.target_epoch))))
    return [
        ("State", state_of(found.state)),
        ("Lag", number(found.lag)),
        ("Members", number(len(found.members))),
        *epochs,
        ("Assignment", found.strategy or "none"),
        ("Coordinator", link(f"broker {found.coordinator}", address("brokers", found.coordinator))),
    ]


def _partition(row: GroupPartition, readers: dict[str, MemberRow]) -> tuple[Child, ...]:
    reader = readers.get(row.member_id or "")
    return (
        link(row.place.topic, address("topics", row.place.topic)),
        str(row.place.partition),
        "none" if row.committed_offset is None else number(row.committed_offset),
        number(row.end_offset),
        UNKNOWN if row.lag is None else number(row.lag),
        "nobody" if reader is None else f"{reader.client_id} at {reader.host}",
    )


def _member(row: MemberRow) -> tuple[Child, ...]:
    return (
        row.member_id,
        row.client_id,
        row.host,
        row.instance_id or "",
        _places(row.partitions),
    )


def _new_member(row: MemberRow) -> tuple[Child, ...]:
    return (*_member(row), _places(row.target or ()), number(row.epoch), row.protocol or UNKNOWN)


def _places(places: tuple[TopicPartition, ...]) -> str:
    return named(places, _MOST_NAMED) or "none"


def _more(count: int, noun: str) -> Child:
    if count <= _MOST_ROWS:
        return None
    text = f"{count - _MOST_ROWS:,} more {noun} are not shown; the JSON API has all of them."
    return joined(element("p", text, class_="quiet"))


ROUTES: Final = (
    WebRoute(pattern=PATH, respond=show_group),
    WebRoute(pattern=f"{PATH}/members", respond=show_members),
    WebRoute(pattern=f"{PATH}/history", respond=show_history),
)
