"""How a Kafka message is declared, and what is known about it afterwards.

    @message(key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: str = wire("string", default="")
        group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)

One class stands for all versions. Structs inside it are `Struct` classes nested directly in the
message class, with the schema's name. A field that a version does not have keeps its default when
that version is decoded, and is left out silently when it is encoded (Kafka's "ignorable"; a broker
fills answers without asking for the version).
Law: declarations are data, so that codecs, tests and documentation go by the same ones; see
`declaration.py` for fields and `codec.py` for bytes (KIP-482 for flexible versions).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, TypeVar

from kbroker.errors import ErrorCode
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.declaration import (
    FieldSpec,
    Struct,
    Versions,
    copied,
    field_specs,
    maker,
    wire,
)
from kbroker.protocol.error_response import fill_error
from kbroker.protocol.primitives import MAX_ELEMENTS

MessageT = TypeVar("MessageT", bound="type[Message]")

_KEYS = frozenset(ApiKey)
_MESSAGES = f"{__package__}.messages"


class MessageSpec(NamedTuple):
    """The arguments of `@message`."""

    name: str
    key: int | None  # None: no API, for example a record of an internal topic
    versions: Versions
    flexible: Versions
    served: Versions  # by a broker that has a handler for it


class Message(Struct):
    """Base of requests, responses and other versioned data (records of internal topics)."""

    spec: ClassVar[MessageSpec]
    error_values: ClassVar[Mapping[str, Any]] = {}
    """On a request: what of an error answer differs from the schema's defaults."""
    max_elements: ClassVar[int] = MAX_ELEMENTS
    """Of its arrays, at all depths together: bytes with more are no such message."""
    is_large = False
    """On an answer: it has so many entries that it is not encoded in one turn of the loop."""
    is_counted = False
    """On an answer: its handler has counted the request against quotas."""
    memory: Any = None
    """On an answer: its share of the memory, when that was taken before it was made."""

    def error_response(
        self, code: ErrorCode, version: int, message: str | None = None, throttle_time_ms: int = 0
    ) -> Message:
        """The answer of this request that says `code` for all of it, in the shape of `version`.

        The code goes to the response's own error code; if the version has none, to an entry for
        every topic, partition, group or resource that the request names. Never raises; a response
        without any place for a code comes back empty.
        """
        response = response_class(type(self))()
        values = {**self.error_values, "error_code": int(code), "error_message": message}
        if throttle_time_ms:
            values["throttle_time_ms"] = throttle_time_ms
        fill_error(self, response, version, values)
        return response


def message(
    *, key: int | None, versions: str, flexible: str = "none", served: str | None = None
) -> Callable[[MessageT], MessageT]:
    """Declare a message class: API key, versions described, which of them are flexible.

    `served` are the versions of a request that a broker answers, if not all: Kafka may call the
    last one unstable, for example. Raises ValueError for one that is not described.
    """
    described = Versions.parse(versions)
    answered = described if served is None else Versions.parse(served)
    if not described.contains(answered):
        raise ValueError(f"versions {described} are described, cannot serve {answered}")

    def declare(cls: MessageT) -> MessageT:
        cls.spec = MessageSpec(cls.__name__, key, described, Versions.parse(flexible), answered)
        if key is not None and cls.__name__.endswith("Request"):
            _requests[key] = cls
            FIRST_FLEXIBLE[key] = cls.spec.flexible.lowest if cls.spec.flexible else 0x8000
        return cls

    return declare


# By API key, filled by @message.
_requests: dict[int, type[Message]] = {}
# KRaft's own, and those of share and streams groups. Their header is read to name the client.
_DECLARED_NOWHERE = (
    *range(ApiKey.VOTE, ApiKey.ALTER_PARTITION),
    ApiKey.FETCH_SNAPSHOT,
    *range(ApiKey.BROKER_REGISTRATION, ApiKey.DESCRIBE_TRANSACTIONS),
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    *range(ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.UNREGISTER_CONTROLLER + 1),
)
FIRST_FLEXIBLE: dict[int, int] = {
    **dict.fromkeys(_DECLARED_NOWHERE, 0),
    **dict.fromkeys((ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH), 1),
}
"""The first flexible version of requests, by API key: those declared nowhere and those imported."""


def request_class(key: int) -> type[Message] | None:
    """The request of a key, whose file is imported at the first question; None if there is none."""
    if key not in _requests and key in _KEYS:
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"{_MESSAGES}.{ApiKey(key).module_name}")
    return _requests.get(key)


def first_flexible_version(key: int) -> int | None:
    """The first flexible version of requests of a declared API; None if none is declared."""
    found = FIRST_FLEXIBLE.get(key)
    if found is None and request_class(key) is not None:
        return FIRST_FLEXIBLE[key]
    return found


def message_spec(cls: type[Message]) -> MessageSpec:
    """Key, versions and flexible versions of a message class."""
    return cls.spec


def response_class(request_class: type[Message]) -> type[Message]:
    """The response that is declared in the same module as a request."""
    name = request_class.__name__.removesuffix("Request") + "Response"
    found: type[Message] = getattr(sys.modules[request_class.__module__], name)
    return found


__all__ = [
    "FIRST_FLEXIBLE",
    "FieldSpec",
    "Message",
    "MessageSpec",
    "Struct",
    "Versions",
    "copied",
    "field_specs",
    "first_flexible_version",
    "maker",
    "message",
    "message_spec",
    "request_class",
    "response_class",
    "wire",
]
