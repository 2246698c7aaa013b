"""Trims a topic, after a preview.

Law: no record goes that the preview has not shown: its form names the offset up to which it
counted, so that what is written meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.client.moments import MOMENTS
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.topic import topic
from kbroker.console.topic_changes import Trim, Trimmed, TrimmedPartition, trim_topic
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import Column, field, form, hidden, number, section, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, RefusedError, WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import counted

_COLUMNS = (
    Column("Partition", is_number=True),
    Column("Begins at", is_number=True),
    Column("Will begin at", is_number=True),
    Column("Ends at", is_number=True),
    Column("Offsets that go", is_number=True),
)
_MOST_DIGITS = 19  # of an offset


async def show_trim(console: Console, request: WebRequest) -> Answer:
    """Show the form that trims a topic, and, for a place, what would go. Raises ClientError."""
    return await _trim_page(console, request, request.query, ())


async def trim(console: Console, request: WebRequest) -> Answer:
    """Delete the records that a preview has shown. Raises RefusedError for what is not a number,
    and without a preview.
    """
    name, filled = request.places["topic"], request.form
    shown = _shown(filled)
    wanted = Trim(
        before=filled.text("before"),
        now_ms=filled.number("now_ms", 0),
        partitions=frozenset(shown),
        at_most=shown,
    )
    try:
        done = await trim_topic(console.cluster, name, wanted, only_previews=False)
    except EndingError as error:
        return await _trim_page(console, request, filled, (error.sentence,))
    gone = sum(each.deleted for each in done.partitions)
    said = (f"{name}: {counted(gone, 'offset')} deleted", *done.refused, *done.gaps)
    return to_page(console, "topics", name, said=said)


async def _trim_page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    name, before = request.places["topic"], filled.text("before")
    now_ms = unix_now_ms()
    preview: Trimmed | None = None
    if before and not problems:
        wanted = Trim(before=before, now_ms=now_ms, partitions=filled.numbers("partitions"))
        try:
            preview = await trim_topic(console.cluster, name, wanted, only_previews=True)
        except EndingError as error:
            problems = (error.sentence,)
    else:
        await topic(console.cluster, name)  # is it there?
    chosen = element(
        "form",
        field("before", "Delete the records before", before, f"an offset, {MOMENTS}, or end"),
        field("partitions", "Of partitions", filled.text("partitions"), "empty: of all, or 0,3"),
        element("p", element("button", "Show what would go")),
        method="get",
        action=address("topics", name, "trim"),
        class_="change",
    )
    body = (
        topic_frame(console, name, "trim"),
        chosen,
        None if preview is None else _preview(name, filled, now_ms, preview),
    )
    content = PageContent(
        title=name, body=body, refused=problems, gaps=() if preview is None else preview.gaps
    )
    return page(console, request, content, 409 if problems else 200)


def _preview(name: str, filled: Fields, now_ms: int, preview: Trimmed) -> Html:
    going = [each for each in preview.partitions if each.deleted]
    gone = sum(each.deleted for each in going)
    chosen = {
        "before": filled.text("before"),
        "now_ms": str(now_ms),
        "shown": _text_of({each.partition: each.start_offset for each in going}),
    }
    confirm: Child = None
    if gone:
        confirm = form(
            address("topics", name, "trim"),
            *hidden(chosen),
            submit=f"Delete {counted(gone, 'offset')}",
            is_danger=True,
        )
    return section(
        "What would go",
        *(element("p", each, class_="warn") for each in preview.refused),
        table("Partitions", _COLUMNS, map(_trimmed, preview.partitions), "Nothing."),
        confirm,
    )


def _text_of(starts: Mapping[int, int]) -> str:
    """Return offsets by partition as a field of the form has them.

    >>> _text_of({0: 5, 3: 12})
    '0:5 3:12'
    """
    return " ".join(f"{partition}:{offset}" for partition, offset in starts.items())


def _shown(filled: Fields) -> dict[int, int]:
    """Return where partitions shall begin, as the preview has shown it. Raises RefusedError."""
    pairs = [pair.partition(":") for pair in filled.names("shown")]
    if not pairs or not all(_is_number(a) and _is_number(b) for a, _, b in pairs):
        raise RefusedError(400, "look first at what would go: nothing was deleted")
    return {int(partition): int(offset) for partition, _, offset in pairs}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _trimmed(row: TrimmedPartition) -> tuple[Child, ...]:
    return (
        str(row.partition),
        number(row.old_start_offset),
        number(row.start_offset),
        number(row.end_offset),
        number(row.deleted),
    )


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/trim", respond=show_trim, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/trim", respond=trim),
)
