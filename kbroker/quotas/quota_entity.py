"""Entities that quotas are for: users, client ids, both together, addresses, and their defaults;
and the values that their quotas may have.

The sentences of refusals are those of Kafka 3.9. Law: a value that is not a number is never taken:
to compare with it would let everything pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from kbroker.quotas.quota_keys import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class Default(Enum):
    """Stands in an entity for all names of its type that have no quota of their own."""

    NAME = "<default>"


DEFAULT: Final = Default.NAME
EntityName = str | Literal[Default.NAME] | None
"""A name, DEFAULT, or None: the entity has nothing of this type."""


class QuotaEntity(NamedTuple):
    """An entity that has quotas: a user, a client id or both, or an address."""

    user: EntityName = None
    client_id: EntityName = None
    ip: EntityName = None

    def __str__(self) -> str:
        """The entity as a person reads it: `user ann, default client-id`."""
        named = zip((USER, CLIENT_ID, IP), self, strict=True)
        return ", ".join(
            f"default {kind}" if name is DEFAULT else f"{kind} {name}"
            for kind, name in named
            if name is not None
        )


class QuotaError(ValueError):
    """An entity or a value that cannot be; the text is Kafka's."""


def checked_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """The entity with these names by type, as requests have them: None stands for the default.

    Raises QuotaError.
    """
    if not names:
        raise QuotaError("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise QuotaError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaError(f"Empty {kind} not supported")
    if IP in names and len(names) > 1:
        raise QuotaError(
            "Invalid quota entity combination, IP entity should not be used with user/client ID "
            "entity."
        )
    return QuotaEntity(*(_name_in(names, kind) for kind in (USER, CLIENT_ID, IP)))


def _name_in(names: Mapping[str, str | None], kind: str) -> EntityName:
    if kind not in names:
        return None
    name = names[kind]
    return DEFAULT if name is None else name


class QuotaKey(NamedTuple):
    """A quota that an entity may have: the type of its values, whole numbers up to `largest`, or
    any number.
    """

    type_name: str
    largest: int | None = None


CLIENT_KEYS: Mapping[str, QuotaKey] = MappingProxyType(
    {
        CONSUMER_BYTE_RATE: QuotaKey("LONG", 2**63 - 1),
        CONTROLLER_MUTATION_RATE: QuotaKey("DOUBLE"),
        PRODUCER_BYTE_RATE: QuotaKey("LONG", 2**63 - 1),
        REQUEST_PERCENTAGE: QuotaKey("DOUBLE"),
    }
)
ADDRESS_KEYS: Mapping[str, QuotaKey] = MappingProxyType(
    {CONNECTION_CREATION_RATE: QuotaKey("INT", 2**31 - 1)}
)
_EPSILON = 1e-6
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|\+?Infinity")


def keys_of(entity: QuotaEntity) -> Mapping[str, QuotaKey]:
    """The quotas that an entity may have."""
    return CLIENT_KEYS if entity.ip is None else ADDRESS_KEYS


def checked_value(entity: QuotaEntity, key: str, value: float) -> int | float:
    """The value of a quota as it is stored. Raises QuotaError.

    Kafka 3.9 takes negative numbers and NaN for those that need not be whole, and then never
    throttles. Here they are refused.
    """
    known = keys_of(entity).get(key)
    if known is None:
        raise QuotaError(f"Invalid configuration key {key}")
    if known.largest is None:
        if math.isnan(value) or value < 0:
            raise QuotaError(f"Configuration {key} must be a {known.type_name} value of 0 or more")
        return value
    whole = min(math.floor(value + _EPSILON), known.largest) if math.isfinite(value) else -1
    # As numbers with a point: 2**63 stands for the largest one, which Java's clients send.
    if not (whole >= 0 and abs(float(whole) - value) <= _EPSILON):
        raise QuotaError(f"Configuration {key} must be a {known.type_name} value")
    return whole


def limit_in(key: str, text: str) -> float:
    """The limit that a node of the tree holds as text. Raises QuotaError.

    A negative one, which Kafka 3.9 stores, counts as 0.
    """
    known = CLIENT_KEYS.get(key) or ADDRESS_KEYS[key]
    if not (_NUMBER if known.largest is None else _WHOLE).fullmatch(text.strip()):
        raise QuotaError(f"{key}={text} is not a {known.type_name}")
    limit = max(0.0, float(text))
    if known.largest is not None and limit > float(known.largest):
        raise QuotaError(f"{key}={text} is not a {known.type_name}")
    return limit
