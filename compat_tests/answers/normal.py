"""Answers as plain values: what must differ between any two brokers is left out, or gets a name.

Law: these are all the rules, each with its reason; what no rule names is compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from compat_tests.wire.record_bytes import HEADER_BYTES, first_batch

LEFT_OUT = {
    "throttle_time": "how busy a broker is",
    "cluster_id": "made at random when a cluster begins",
    "host": "where a broker is",
    "port": "where a broker is",
    "rack": "where a broker is",
    "controller_id": "the number of a broker",
    "node_id": "the number of a broker",
    "broker_id": "the number of a broker",
    "leader_id": "the number of a broker",
    "replica_nodes": "numbers of brokers",
    "isr_nodes": "numbers of brokers",
    "offline_replicas": "numbers of brokers",
    "replica_id": "the number of a broker",
    "replicas": "numbers of brokers",
    "error_message": "a sentence for people; the code beside it is compared",
    "documentation": "a sentence for people",
    "log_append_time": "a time",
    "last_timestamp": "a time",
    "transaction_start_time": "a time",
    "coordinator_epoch": "how often a partition has moved",
    "client_host": "where the request came from",
    "log_dir": "a path of the broker's machine",
    "total_bytes": "the size of a disk",
    "usable_bytes": "the size of a disk",
    "partition_size": "index files and segments are made ahead",
    "offset_lag": "how far a replica was at that moment",
    "finalized_features_epoch": "how often the features of a cluster changed",
}
NAMED = {
    "session_id": ("a session", "chosen at random"),
    "member_id": ("a member id", "chosen at random"),
    "leader": ("a member id", "chosen at random"),
    "producer_id": ("a producer id", "counted in blocks, in each broker from its own start"),
}
EPOCHS = frozenset({"leader_epoch", "epoch"})  # they count from the present one: restarts raise it
ENTRIES = ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name")

_NUMBERS = ("api_key", "partition_index", "partition_id", "partition", "index", "resource_type")
_SUBJECTS = (*ENTRIES, *_NUMBERS, "")
NOT_THERE = "not there"

Plain = Any  # dicts by the names of fields, sorted lists, texts and numbers


@dataclass
class Names:
    """What a broker calls the things that requests are about.

    `suffix` stands behind each name in `own`, so that a broker may have others of that name.
    """

    suffix: str = ""
    own: set[str] = field(default_factory=set)
    ids: dict[str, UUID] = field(default_factory=dict)  # of topics, by their name without suffix
    epoch: int = 0  # the present leader epoch of all topics

    def on_broker(self, name: str) -> str:
        """The name that the broker knows; nothing is put behind the names of others."""
        return name + self.suffix if name in self.own else name

    def sent(self, value: Any) -> Any:
        """A request with the names that the broker knows."""
        if isinstance(value, dict):
            return {key: self.sent(held) for key, held in value.items()}
        if isinstance(value, list | tuple):
            return [self.sent(element) for element in value]
        return self.on_broker(value) if isinstance(value, str) else value

    def told(self, text: str) -> str:
        """A text of an answer without the suffix, also where its bytes are shown as numbers."""
        if not self.suffix:
            return text
        shown = self.suffix.encode().hex(" ")
        return text.replace(self.suffix, "").replace(f"{shown} ", "")


def strings(value: Any) -> Iterator[str]:
    """Every text in a request."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for element in value:
            yield from strings(element)
    elif isinstance(value, str):
        yield value


def plain(names: Names, value: Any, asked: Collection[str] | None = None, of: str = "") -> Plain:
    """An answer in plain values. With `asked` (names that the broker knows), entries of lists about
    anything else are left out: others use the broker, too.
    """
    if is_dataclass(value):
        return _struct(names, value, asked)
    if isinstance(value, list | tuple):
        kept = [element for element in value if asked is None or _is_asked(element, asked)]
        return sorted((plain(names, element, asked, of) for element in kept), key=repr)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        known = {held: topic for topic, held in names.ids.items()}
        return known.get(value, "an id" if value.int else "zero")
    if isinstance(value, bytes):
        return _records(value)
    if isinstance(value, str):
        return NAMED[of][0] if of in NAMED and value else names.told(value)
    if of in EPOCHS and value >= 0:
        return f"present{value - names.epoch:+d}"
    if of in NAMED and value is not None and value > 0:
        return NAMED[of][0]
    return value


def _struct(names: Names, value: Any, asked: Collection[str] | None) -> Plain:
    return {
        each.name: plain(names, getattr(value, each.name), asked, each.name)
        for each in fields(value)
        if each.name not in LEFT_OUT
    }


def _is_asked(element: Any, asked: Collection[str]) -> bool:
    held = (getattr(element, name, None) for name in ENTRIES)
    named = next((text for text in held if isinstance(text, str) and text), None)
    return named is None or named in asked


def _records(content: bytes) -> str:
    if len(content) < HEADER_BYTES:
        return f"{len(content)} bytes"
    return f"{len(content)} bytes from offset {first_batch(content)['base_offset']}"


def differences(left: Plain, right: Plain, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, left, right) of each plain value that differs. Elements of lists are matched by what
    they are about, `topics[full]`; what is only in one of them is `not there` in the other.
    """
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            values = left.get(key, NOT_THERE), right.get(key, NOT_THERE)
            yield from differences(*values, f"{path}.{key}".lstrip("."))
    elif isinstance(left, list) and isinstance(right, list):
        one, other = _by_subject(left), _by_subject(right)
        for subject in dict.fromkeys([*one, *other]):
            values = one.get(subject, NOT_THERE), other.get(subject, NOT_THERE)
            yield from differences(*values, f"{path}[{subject}]")
    elif left != right:
        yield path, left, right


def _by_subject(elements: list[Plain]) -> dict[str, Plain]:
    """Elements by what they are about, the second and further ones with their number."""
    found: dict[str, Plain] = {}
    for element in elements:
        fields_of = element if isinstance(element, dict) else {"": element}
        subject = next((str(fields_of[name]) for name in _SUBJECTS if name in fields_of), "")
        count = sum(known.partition("#")[0] == subject for known in found)
        found[f"{subject}#{count + 1}" if count else subject] = element
    return found
