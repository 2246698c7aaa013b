"""The names in a request: topics, partitions, groups, transactional ids.

Pure. Law: a table of fields that hold names; nothing else of a request is looked at. So what a
client sends beside them, its records, passwords, tokens and settings, is nowhere else afterwards.
Fields are found by the declarations of messages: a new API is named without a word here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from kbroker.model import TopicPartition
from kbroker.protocol.declaration import Struct, field_specs
from kbroker.tracing.trace_entry import FEW, AskedFor, kept
from kbroker.wording import unnamed_topic

LOOKED_AT_MAX = 1_000  # entries of a request: about a millisecond

TopicName = Callable[[UUID], str | None]

_TOPIC_FIELDS = ("topic", "topic_name", "name")
_LISTS_OF_TOPICS = frozenset({"topic_names", "subscribed_topic_names"})
_NUMBERS = ("partition_index", "index", "partition")
_LISTS_OF_NUMBERS = ("partitions", "partition_indexes")
_GROUPS = frozenset({"group_id", "groups", "groups_names"})
_TRANSACTIONAL_IDS = frozenset(
    {"transactional_id", "transactional_ids", "v3_and_below_transactional_id"}
)
_KEYS = {0: True, 1: False}  # of FindCoordinator, by type: groups, or transactional ids
_NOT_LOOKED_INTO = frozenset({"forgotten_topics_data"})  # they are no longer asked for
_RESOURCE_OF_TOPIC = 2  # a ConfigResource's and an AclResource's type


class AskedNames:
    """The names that are found in a request, or in the parts of one."""

    __slots__ = (
        "_groups",
        "_left",
        "_partition_count",
        "_partitions",
        "_topic_name",
        "_transactional_ids",
        "by_id",
        "topics",
    )

    def __init__(self, topic_name: TopicName) -> None:
        """`topic_name` says which topic has an id."""
        self._topic_name = topic_name
        self._left = LOOKED_AT_MAX
        self.topics: dict[str, None] = {}  # in the order they are named
        self.by_id: dict[str, str] = {}  # the names of topics by `unnamed_topic`
        self._partitions: list[str] = []
        self._partition_count = 0
        self._groups: dict[str, None] = {}
        self._transactional_ids: dict[str, None] = {}

    def add(self, request: Struct) -> None:
        """Take the names that stand in a request."""
        self._look(request, _shape(type(request)))

    def add_partitions(self, partitions: Iterable[TopicPartition], count: int) -> None:
        """Take the first of `count` partitions, as of a fetch session that a request goes on with:
        those that the request itself has named are among them.
        """
        for topic_partition in islice(partitions, self._left):
            self._note_topic(topic_partition.topic)
            self._note_partitions(topic_partition.topic, (topic_partition.partition,), 0)
        self._partition_count = max(self._partition_count, count)

    def asked_for(self) -> AskedFor:
        """Return the first names, which may be kept."""
        return AskedFor(
            topics=kept(self.topics),
            topic_count=len(self.topics),
            partitions=kept(self._partitions),
            partition_count=self._partition_count,
            groups=kept(self._groups),
            transactional_ids=kept(self._transactional_ids),
        )

    def _look(self, entry: Any, shape: _Shape) -> None:
        for field in shape.groups:
            _take(self._groups, getattr(entry, field))
        for field in shape.transactional_ids:
            _take(self._transactional_ids, getattr(entry, field))
        for field in shape.lists_of_topics:
            for topic in (getattr(entry, field) or ())[: self._left]:
                self._note_topic(topic)
        if shape.is_key and entry.key_type in _KEYS:
            names = self._groups if _KEYS[entry.key_type] else self._transactional_ids
            _take(names, entry.key)
            _take(names, entry.coordinator_keys)
        if shape.is_resource and entry.resource_type == _RESOURCE_OF_TOPIC:
            self._note_topic(entry.resource_name)
        if shape.names_topic:
            self._look_at_topic(entry, shape)
            return
        for field, below in shape.arrays:
            for each in self._first_of(getattr(entry, field)):
                self._look(each, below)

    def _look_at_topic(self, entry: Any, shape: _Shape) -> None:
        topic = self._name_of(entry, shape)
        if not topic:
            return
        self._note_topic(topic)
        if shape.number is not None:
            self._note_partitions(topic, (getattr(entry, shape.number),), 1)
        for field in shape.lists_of_numbers:
            numbers = getattr(entry, field) or ()
            self._note_partitions(topic, numbers, len(numbers))
        for field, below in shape.arrays:
            if below.number is not None:
                entries = getattr(entry, field) or ()
                numbers = [getattr(each, below.number) for each in entries[:FEW]]
                self._note_partitions(topic, numbers, len(entries))

    def _name_of(self, entry: Any, shape: _Shape) -> str | None:
        name: str | None = getattr(entry, shape.topic) if shape.topic is not None else None
        if name or not shape.has_id:
            return name
        topic_id: UUID = entry.topic_id
        if not topic_id.int:
            return None
        name = self._topic_name(topic_id)
        if name is not None:
            self.by_id[unnamed_topic(topic_id)] = name
        return name or unnamed_topic(topic_id)

    def _first_of(self, entries: Any) -> Any:
        found = (entries or ())[: self._left]
        self._left -= len(found)
        return found

    def _note_topic(self, topic: str | None) -> None:
        if topic and len(self.topics) < LOOKED_AT_MAX:
            self.topics[topic] = None

    def _note_partitions(self, topic: str, numbers: Iterable[int], count: int) -> None:
        self._partition_count += count
        if len(self._partitions) == FEW:
            return
        for number in islice(numbers, FEW):
            name = f"{topic}-{number}"
            if len(self._partitions) < FEW and name not in self._partitions:
                self._partitions.append(name)


def _take(names: dict[str, None], value: Any) -> None:
    found = (value,) if isinstance(value, str) else value or ()
    for name in found[: FEW - len(names)]:
        if name:
            names[name] = None


class _Shape(NamedTuple):
    """The fields of a struct that hold names."""

    names_topic: bool
    topic: str | None
    has_id: bool
    number: str | None
    is_resource: bool
    is_key: bool
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    lists_of_topics: tuple[str, ...]
    lists_of_numbers: tuple[str, ...]
    arrays: tuple[tuple[str, _Shape], ...]


def _shape(struct: type[Struct]) -> _Shape:
    return _worked_out(struct)  # type: ignore[arg-type]  # a class has a hash


@cache
def _worked_out(struct: type[Struct]) -> _Shape:
    fields = list(field_specs(struct))
    plain = {field.name: field.type_name for field in fields if field.struct is None}
    lists = {field.name for field in fields if field.struct is None and field.is_array}
    single = [name for name in plain if name not in lists]
    texts = [name for name in single if plain[name] == "string"]
    has_id = "topic_id" in single
    topic = next((name for name in _TOPIC_FIELDS if name in texts), None)
    # A name is that of a topic if the struct says so, as those of protocols and settings do not.
    is_of_topic = has_id or topic in ("topic", "topic_name")
    if topic == "name" and not is_of_topic:
        is_of_topic = "Topic" in struct.__name__ and not struct.__name__.endswith("Config")
    return _Shape(
        names_topic=is_of_topic,
        topic=topic if is_of_topic else None,
        has_id=has_id,
        number=next((name for name in _NUMBERS if name in single), None),
        is_resource="resource_type" in single and "resource_name" in single,
        is_key="key_type" in single,
        groups=tuple(name for name in plain if name in _GROUPS),
        transactional_ids=tuple(name for name in plain if name in _TRANSACTIONAL_IDS),
        lists_of_topics=tuple(name for name in lists if name in _LISTS_OF_TOPICS),
        lists_of_numbers=tuple(name for name in lists if name in _LISTS_OF_NUMBERS),
        arrays=tuple(
            (field.name, _shape(field.struct))
            for field in fields
            if field.struct is not None and field.is_array and field.name not in _NOT_LOOKED_INTO
        ),
    )
