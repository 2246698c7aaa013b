"""Changes of topics: create, add partitions, delete."""

from __future__ import annotations

from typing import Final

from kbroker.console.topic import topic
from kbroker.console.topic_changes import (
    NewTopic,
    create_topic,
    delete_topic,
    grow_topic,
)
from kbroker.console.web.console import Console
from kbroker.console.web.html import element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import field, form, number, text_area
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import attempted, refused
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import counted

NEW_PATH: Final = "/new-topic"  # a topic may have any name below /topics
_BROKERS = "empty: as the brokers' settings say"


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
    WebRoute(pattern=f"{PATH}/delete", respond=show_deletion, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/delete", respond=delete),
)
