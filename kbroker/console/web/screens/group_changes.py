"""Changes of groups, each after a preview: reset the offsets, delete the group."""

from __future__ import annotations

from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.client.group_resets import PlannedOffset
from kbroker.client.reset_targets import TARGETS
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.groups import (
    GroupPartition,
    ResetPreview,
    delete,
    group,
    preview_reset,
    reset,
)
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import Column, field, form, hidden, number, section, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import CHANGE_ERRORS, sentence_of
from kbroker.console.web.screens.group_frame import PATH, group_frame
from kbroker.console.web.web_request import Fields, RefusedError, WebRequest, address
from kbroker.http.answers import Answer
from kbroker.model import TopicPartition
from kbroker.wording import counted

_SHOWN_ROWS = 1_000
_RESET_COLUMNS = (
    Column("Topic"),
    Column("Partition", is_number=True),
    Column("Begins at", is_number=True),
    Column("Ends at", is_number=True),
    Column("Committed", is_number=True),
    Column("Would be", is_number=True),
    Column("Lag then", is_number=True),
)
_OFFSET_COLUMNS = (
    Column("Topic"),
    Column("Partition", is_number=True),
    Column("Committed", is_number=True),
    Column("Lag", is_number=True),
)


async def show_reset(console: Console, request: WebRequest) -> Answer:
    """Show the form of a reset, and, for a target, what would become of the group."""
    return await _reset_page(console, request, ())


async def do_reset(console: Console, request: WebRequest) -> Answer:
    """Commit the offsets that were previewed. Raises RefusedError for what are no offsets."""
    name = request.places["group"]
    offsets = offsets_in(request.form.exact("offsets"))
    try:
        failed = await reset(console.cluster, name, offsets)
    except CHANGE_ERRORS as error:
        return await _reset_page(console, request, (sentence_of(error),))
    problems = tuple(f"{place}: {reason}" for place, reason in sorted(failed.items()))
    done = counted(len(offsets) - len(failed), "partition")
    said = (f"{name}: offsets of {done} set", *(f"not reset: {each}" for each in problems[:20]))
    return to_page(console, "groups", name, said=said)


def offsets_in(text: str) -> dict[TopicPartition, int]:
    """Return offsets from lines of TOPIC PARTITION OFFSET. Raises RefusedError for other lines.

    >>> offsets_in("a 0 7")
    {TopicPartition(topic='a', partition=0): 7}
    """
    found: dict[TopicPartition, int] = {}
    for line in filter(None, text.split("\n")):
        topic, *numbers = line.split(" ")
        if len(numbers) != 2 or not all(_is_number(each) for each in numbers):
            raise RefusedError(400, f"not TOPIC PARTITION OFFSET: {line[:100]!r}")
        found[TopicPartition(topic, int(numbers[0]))] = int(numbers[1])
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


async def _reset_page(console: Console, request: WebRequest, problems: tuple[str, ...]) -> Answer:
    name, filled = request.places["group"], request.query
    if request.method == "POST":
        filled = request.form
    preview: ResetPreview | None = None
    if filled.text("to"):
        try:
            preview = await preview_reset(
                console.cluster, name, filled.text("to"), _wanted(filled), unix_now_ms()
            )
        except EndingError as error:
            problems = problems or (error.sentence,)
    chosen = element(
        "form",
        field("to", "Go on at", filled.text("to"), TARGETS, required=True),
        field("topics", "Of topics", filled.text("topics"), "empty: all that it reads, or a,b"),
        field("partitions", "Of partitions", filled.text("partitions"), "of one topic: 0,3"),
        element("p", element("button", "Show what would change")),
        method="get",
        action=address("groups", name, "reset"),
        class_="change",
    )
    content = PageContent(
        title=name,
        body=(
            group_frame(console, name, "reset"),
            chosen,
            None if preview is None else _preview(name, filled, preview),
        ),
        refused=problems,
        gaps=() if preview is None else preview.notes,
    )
    return page(console, request, content, 409 if problems else 200)


def _preview(name: str, filled: Fields, preview: ResetPreview) -> Html:
    rows = map(_planned, preview.offsets[:_SHOWN_ROWS])
    more = len(preview.offsets) - _SHOWN_ROWS
    changed = sum(each.new_offset != each.committed_offset for each in preview.offsets)
    planned = {
        "to": filled.text("to"),
        "topics": filled.text("topics"),
        "partitions": filled.text("partitions"),
        "offsets": "\n".join(
            f"{each.place.topic} {each.place.partition} {each.new_offset}"
            for each in preview.offsets
        ),
    }
    confirm: Child = None
    if changed and preview.refusal is None:
        confirm = form(
            address("groups", name, "reset"),
            *hidden(planned),
            submit=f"Reset {counted(changed, 'partition')}",
            is_danger=True,
        )
    return section(
        "What would change",
        None if preview.refusal is None else element("p", preview.refusal, class_="bad"),
        *(element("p", each, class_="warn") for each in preview.failures[:20]),
        table("Offsets", _RESET_COLUMNS, rows, "Nothing."),
        element("p", f"{counted(more, 'more partition')}", class_="quiet") if more > 0 else None,
        confirm,
    )


def _planned(row: PlannedOffset) -> tuple[Child, ...]:
    return (
        row.place.topic,
        str(row.place.partition),
        number(row.start_offset),
        number(row.end_offset),
        "none" if row.committed_offset is None else number(row.committed_offset),
        number(row.new_offset),
        number(row.end_offset - row.new_offset),
    )


def _wanted(filled: Fields) -> dict[str, frozenset[int]]:
    """Return the topics and partitions that are named. Raises RefusedError."""
    topics, numbers = filled.names("topics"), filled.numbers("partitions")
    if numbers and len(topics) != 1:
        raise RefusedError(400, "partitions need one topic")
    return dict.fromkeys(topics, numbers)


async def show_deletion(console: Console, request: WebRequest) -> Answer:
    """Show what goes with a group. Raises NotFoundError if there is none, ClientError."""
    return await _deletion_page(console, request, ())


async def do_delete(console: Console, request: WebRequest) -> Answer:
    """Delete a group. Raises NotFoundError, ClientError."""
    name = request.places["group"]
    try:
        await delete(console.cluster, name)
    except CHANGE_ERRORS as error:
        return await _deletion_page(console, request, (sentence_of(error),))
    return to_page(console, "groups", said=(f"{name}: deleted",))


async def _deletion_page(
    console: Console, request: WebRequest, problems: tuple[str, ...]
) -> Answer:
    name = request.places["group"]
    found = await group(console.cluster, name)
    committed = [each for each in found.partitions if each.committed_offset is not None]
    members = counted(len(found.members), "member")
    confirm: Child = element("p", f"It has {members}: stop them first.", class_="bad")
    if not found.members:
        confirm = form(address("groups", name, "delete"), submit="Delete the group", is_danger=True)
    going = counted(len(committed), "partition")
    content = PageContent(
        title=name,
        body=(
            group_frame(console, name, "delete"),
            element("p", f"The group goes with its offsets of {going}, for good."),
            table("Offsets", _OFFSET_COLUMNS, map(_committed, committed[:_SHOWN_ROWS]), "None."),
            confirm,
        ),
        refused=problems,
        gaps=found.gaps,
    )
    return page(console, request, content, 409 if problems else 200)


def _committed(row: GroupPartition) -> tuple[Child, ...]:
    return (
        row.place.topic,
        str(row.place.partition),
        number(row.committed_offset),
        number(row.lag),
    )


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/reset", respond=show_reset, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/reset", respond=do_reset),
    WebRoute(pattern=f"{PATH}/delete", respond=show_deletion, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/delete", respond=do_delete),
)
