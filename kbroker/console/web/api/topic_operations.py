"""Operations of the API on topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kbroker.client.setting_changes import SettingChanges
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.done import Done
from kbroker.console.pages import Wanted
from kbroker.console.topic import ReadingGroups, TopicDetails, groups_of_topic, topic
from kbroker.console.topic_changes import (
    NewTopic,
    Trim,
    Trimmed,
    configure_topic,
    create_topic,
    delete_topic,
    grow_topic,
    trim_topic,
)
from kbroker.console.topics import TopicPage, topics
from kbroker.console.web.api.operation import PAGE_PARAMETERS, Given, Operation, Parameter
from kbroker.console.web.console import Console
from kbroker.console.web.web_request import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCreate:
    """A topic to be made; without numbers the brokers choose their defaults."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsToChange:
    """Settings to be set by name, and names of those that get their defaults back."""

    sets: Mapping[str, str] = field(default_factory=dict)
    deletes: Sequence[str] = ()

    def changes(self) -> SettingChanges:
        return SettingChanges(self.sets, self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsToHave:
    """The number of partitions that a topic shall have."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsToTrim:
    """The records to be deleted: those before an offset, a time or `end`, of all partitions or of
    some. Nothing is deleted unless `confirmed` is true: the answer says what would be. `at_most`
    takes the `start_offset` of each partition from that answer, by its number: records that were
    written since then stay, and so do partitions that are not in it.
    """

    before: str
    partitions: Sequence[int] = ()
    confirmed: bool = False
    at_most: Mapping[str, int] | None = None


async def _topics(console: Console, given: Given) -> TopicPage:
    wanted = wanted_of(given)
    return await topics(console.cluster, wanted, with_internal=given.query.flag("internal"))


def wanted_of(given: Given) -> Wanted:
    """Return the page of a list that a call asks for. Raises RefusedError."""
    query = given.query
    return Wanted(search=query.text("q"), page=query.page(), rows=query.number("rows", 50))


async def _topic(console: Console, given: Given) -> TopicDetails:
    return await topic(console.cluster, given.places["topic"])


async def _groups(console: Console, given: Given) -> ReadingGroups:
    return await groups_of_topic(console.cluster, given.places["topic"])


def done(answer: Done) -> Done:
    """Return what was done. Raises RefusedError if it was refused."""
    if answer.refused:
        raise RefusedError(409, "; ".join(answer.refused))
    return answer


async def _create(console: Console, given: Given) -> Done:
    body: TopicToCreate = given.body
    new = NewTopic(
        name=body.name,
        partitions=body.partitions,
        replication_factor=body.replication_factor,
        settings=body.settings,
    )
    return done(await create_topic(console.cluster, new))


async def _configure(console: Console, given: Given) -> Done:
    body: SettingsToChange = given.body
    return done(await configure_topic(console.cluster, given.places["topic"], body.changes()))


async def _grow(console: Console, given: Given) -> Done:
    return done(await grow_topic(console.cluster, given.places["topic"], given.body.count))


async def _trim(console: Console, given: Given) -> Trimmed:
    body: RecordsToTrim = given.body
    trim = Trim(
        before=body.before,
        now_ms=unix_now_ms(),
        partitions=frozenset(body.partitions),
        at_most=None if body.at_most is None else _by_partition(body.at_most),
    )
    name, only_previews = given.places["topic"], not body.confirmed
    return await trim_topic(console.cluster, name, trim, only_previews=only_previews)


def _by_partition(offsets: Mapping[str, int]) -> dict[int, int]:
    try:
        return {int(number): offset for number, offset in offsets.items()}
    except ValueError as error:
        raise RefusedError(400, "at_most has offsets by the numbers of partitions") from error


async def _delete(console: Console, given: Given) -> Done:
    return done(await delete_topic(console.cluster, given.places["topic"]))


OPERATIONS: Final = (
    Operation(
        name="listTopics",
        path="/topics",
        summary="Topics with partitions, replicas, records and sizes, a page at a time.",
        answer=TopicPage,
        function=_topics,
        parameters=(
            *PAGE_PARAMETERS,
            Parameter(
                name="internal", summary="Kafka's own topics, too.", type=bool, default=False
            ),
        ),
    ),
    Operation(
        name="createTopic",
        method="POST",
        path="/topics",
        summary="Make a topic.",
        answer=Done,
        function=_create,
        body=TopicToCreate,
    ),
    Operation(
        name="getTopic",
        path="/topics/{topic}",
        summary="A topic: its partitions, and its settings with their origins.",
        answer=TopicDetails,
        function=_topic,
    ),
    Operation(
        name="deleteTopic",
        method="DELETE",
        path="/topics/{topic}",
        summary="Delete a topic with its records.",
        answer=Done,
        function=_delete,
    ),
    Operation(
        name="listGroupsOfTopic",
        path="/topics/{topic}/groups",
        summary="The groups that have committed offsets in a topic, with their lag.",
        answer=ReadingGroups,
        function=_groups,
    ),
    Operation(
        name="configureTopic",
        method="POST",
        path="/topics/{topic}/settings",
        summary="Set settings of a topic, and give others their defaults back; all or none.",
        answer=Done,
        function=_configure,
        body=SettingsToChange,
    ),
    Operation(
        name="growTopic",
        method="POST",
        path="/topics/{topic}/partitions",
        summary="Give a topic more partitions.",
        answer=Done,
        function=_grow,
        body=PartitionsToHave,
    ),
    Operation(
        name="trimTopic",
        method="POST",
        path="/topics/{topic}/trim",
        summary="Delete records before an offset or a time, or say what would go.",
        answer=Trimmed,
        function=_trim,
        body=RecordsToTrim,
    ),
)
