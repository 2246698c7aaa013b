"""Changes of topics: create, add partitions, trim after a preview, delete."""

from __future__ import annotations

import time
from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.client.moments import MOMENTS
from kbroker.console.topic import topic
from kbroker.console.topic_changes import (
    NewTopic,
    Trimmed,
    TrimmedPartition,
    create_topic,
    delete_topic,
    grow_topic,
    trim_topic,
)
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import Column, field, form, hidden, number, section, table, text_area
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import attempted, refused
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import counted

NEW_PATH: Final = "/new-topic"  # a topic may have any name below /topics
_BROKERS = "empty: as the brokers' settings say"
_TRIM_COLUMNS = (
    Column("Partition", is_number=True),
    Column("Begins at", is_number=True),
    Column("Will begin at", is_number=True),
    Column("Ends at", is_number=True),
    Column("Offsets that go", is_number=True),
)


async def show_new_topic(console: Console, request: WebRequest) -> Answer:
    """Show the form for a new topic."""
    return _new_topic_page(console, request, request.query, ())


async def create(console: Console, request: WebRequest) -> Answer:
    """Make a topic, and lead to it."""
    filled = request.form
    settings, problems = settings_in(filled.exact("settings"))
    name = filled.text("name")
    if problems:
        outcome = refused(problems)
    else:
        new = NewTopic(
            name=name,
            partitions=filled.optional_number("partitions"),
            replication_factor=filled.optional_number("replication"),
            settings=settings,
        )
        outcome = await attempted(create_topic(console.cluster, new))
    if outcome.refused:
        return _new_topic_page(console, request, filled, outcome.refused)
    return to_page(console, "topics", name, said=outcome.said or (f"{name}: created",))


def settings_in(text: str) -> tuple[dict[str, str], list[str]]:
    """Return settings that stand in lines of NAME=VALUE, and what is wrong with other lines.

    >>> settings_in("retention.ms = 1000")
    ({'retention.ms': '1000'}, [])
    """
    found: dict[str, str] = {}
    problems = []
    for line in filter(str.strip, text.splitlines()):
        name, sign, value = line.partition("=")
        if sign and name.strip():
            found[name.strip()] = value.strip()
        else:
            problems.append(f"'{line.strip()[:100]}' is not NAME=VALUE")
    return found, problems


def _new_topic_page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    body = form(
        NEW_PATH,
        field("name", "Name", filled.text("name"), required=True, maxlength=249),
        field("partitions", "Partitions", filled.text("partitions"), _BROKERS, inputmode="numeric"),
        field("replication", "Replicas", filled.text("replication"), _BROKERS, inputmode="numeric"),
        text_area("settings", "Settings", filled.exact("settings"), "NAME=VALUE, one in a line"),
        submit="Create the topic",
    )
    content = PageContent(title="Create a topic", body=body, refused=problems)
    return page(console, request, content, 409 if problems else 200)


async def show_growth(console: Console, request: WebRequest) -> Answer:
    """Show the form that adds partitions. Raises NotFoundError, ClientError."""
    return await _growth_page(console, request, request.query, ())


async def grow(console: Console, request: WebRequest) -> Answer:
    """Add partitions to a topic. Raises NotFoundError, ClientError."""
    name, filled = request.places["topic"], request.form
    count = filled.number("count", 0)
    outcome = await attempted(grow_topic(console.cluster, name, count))
    if outcome.refused:
        return await _growth_page(console, request, filled, outcome.refused)
    said = outcome.said or (f"{name}: {counted(count, 'partition')}",)
    return to_page(console, "topics", name, said=said)


async def _growth_page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    name = request.places["topic"]
    found = await topic(console.cluster, name)
    warning = (
        f"The topic has {counted(found.partition_count, 'partition')}. Records with a key go to "
        "other partitions afterwards, and partitions cannot be taken away again."
    )
    value = filled.text("count") or str(found.partition_count + 1)
    body = (
        topic_frame(console, name, "grow"),
        element("p", warning),
        form(
            address("topics", name, "grow"),
            field("count", "Partitions that it shall have", value, inputmode="numeric"),
            submit="Add partitions",
        ),
    )
    content = PageContent(title=name, body=body, refused=problems)
    return page(console, request, content, 409 if problems else 200)


async def show_trim(console: Console, request: WebRequest) -> Answer:
    """Show the form that trims a topic, and, for a place, what would go. Raises ClientError."""
    return await _trim_page(console, request, request.query, ())


async def trim(console: Console, request: WebRequest) -> Answer:
    """Delete the records before a place. Raises RefusedError for what is not a number."""
    name, filled = request.places["topic"], request.form
    try:
        done = await trim_topic(
            console.cluster,
            name,
            filled.text("before"),
            filled.number("now_ms", _now_ms()),
            filled.numbers("partitions"),
            only_previews=False,
        )
    except EndingError as error:
        return await _trim_page(console, request, filled, (error.sentence,))
    gone = sum(each.deleted for each in done.partitions)
    said = (f"{name}: {counted(gone, 'offset')} deleted", *done.refused, *done.gaps)
    return to_page(console, "topics", name, said=said)


async def _trim_page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    name, before, now_ms = request.places["topic"], filled.text("before"), _now_ms()
    preview: Trimmed | None = None
    if before and not problems:
        try:
            preview = await trim_topic(
                console.cluster,
                name,
                before,
                now_ms,
                filled.numbers("partitions"),
                only_previews=True,
            )
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
    gone = sum(each.deleted for each in preview.partitions)
    chosen = {
        "before": filled.text("before"),
        "partitions": filled.text("partitions"),
        "now_ms": str(now_ms),
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
        table("Partitions", _TRIM_COLUMNS, map(_trimmed, preview.partitions), "Nothing."),
        confirm,
    )


def _trimmed(row: TrimmedPartition) -> tuple[Child, ...]:
    return (
        str(row.partition),
        number(row.old_start_offset),
        number(row.start_offset),
        number(row.end_offset),
        number(row.deleted),
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


async def show_deletion(console: Console, request: WebRequest) -> Answer:
    """Ask whether a topic shall be deleted. Raises NotFoundError, ClientError."""
    return await _deletion_page(console, request, ())


async def delete(console: Console, request: WebRequest) -> Answer:
    """Delete a topic whose name was typed. Raises NotFoundError, ClientError."""
    name = request.places["topic"]
    if request.form.text("name") != name:
        outcome = refused([f"nothing was deleted: the name that was typed is not {name}"])
    else:
        outcome = await attempted(delete_topic(console.cluster, name))
    if outcome.refused:
        return await _deletion_page(console, request, outcome.refused)
    return to_page(console, "topics", said=outcome.said)


async def _deletion_page(
    console: Console, request: WebRequest, problems: tuple[str, ...]
) -> Answer:
    name = request.places["topic"]
    found = await topic(console.cluster, name)
    body = (
        topic_frame(console, name, "delete"),
        element("p", f"The topic goes with its {number(found.records)} records, for good."),
        form(
            address("topics", name, "delete"),
            field("name", "Type the name of the topic", "", required=True),
            submit="Delete the topic",
            is_danger=True,
        ),
    )
    content = PageContent(title=name, body=body, refused=problems)
    return page(console, request, content, 409 if problems else 200)


ROUTES: Final = (
    WebRoute(pattern=NEW_PATH, respond=show_new_topic, asks_for_change=True),
    WebRoute(method="POST", pattern=NEW_PATH, respond=create),
    WebRoute(pattern=f"{PATH}/grow", respond=show_growth, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/grow", respond=grow),
    WebRoute(pattern=f"{PATH}/trim", respond=show_trim, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/trim", respond=trim),
    WebRoute(pattern=f"{PATH}/delete", respond=show_deletion, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/delete", respond=delete),
)
