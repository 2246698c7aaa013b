"""Changes of client quotas (KIP-546): what of a request can be done, and what is stored of an
entity afterwards.

Law: an entity's changes are done together or refused together, with the codes and sentences of
Kafka 3.9; what cannot be done for one entity is done for the others. Nothing but quotas is removed:
Kafka 3.9 also takes away the SCRAM credentials that stand in the same node.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.java_hash import hash_map_order, java_hash
from kbroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kbroker.quotas.quota_entity import (
    DEFAULT,
    EntityName,
    QuotaEntity,
    QuotaError,
    checked_entity,
    checked_value,
    keys_of,
)
from kbroker.turns import in_turns, turn
from kbroker.zk.nodes.entity_configs import Change, Overrides, entity_name
from kbroker.zk.zk_paths import (
    CLIENT_CONFIGS,
    DEFAULT_ENTITY,
    IP_CONFIGS,
    USER_CONFIGS,
    has_node,
    sanitized,
)

Entry = AlterClientQuotasRequest.EntryData
Entity = tuple[tuple[str, str | None], ...]  # types with their names, None is the default

# Of doubles that Java writes without an exponent.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
_PLACES = 18  # tell any double from all others

ChangeEntity = Callable[[str, str, Change], Awaitable[None]]
"""(type of the tree, name there, change): replaces what is stored of an entity."""
AddressOf = Callable[[str], Awaitable[str | None]]
"""The address that a name is, or that its host has; None for neither."""


class Place(NamedTuple):
    """Where the tree keeps an entity."""

    entity_type: str
    name: str


@dataclass(slots=True)
class QuotaChange:
    """The keys that an entity loses, and those that it gets with the texts that are stored."""

    deleted: set[str] = field(default_factory=set)
    stored: dict[str, str] = field(default_factory=dict)

    def applied(self, before: Mapping[str, str]) -> Overrides:
        """Return all that is stored of the entity afterwards."""
        kept = {key: text for key, text in before.items() if key not in self.deleted}
        return kept | self.stored


async def alter_quotas(
    change_entity: ChangeEntity,
    address_of: AddressOf,
    entries: Sequence[Entry],
    *,
    is_stored: bool,
) -> dict[Entity, KafkaError | None]:
    """Change each entry's entity by itself, unless nothing is to be stored; returns why not, None
    for success. Of an entity that is named again, the last outcome counts.
    """
    outcomes: dict[Entity, KafkaError | None] = {}
    for entry in entries:
        await turn()
        names: dict[str, str | None] = {}
        await in_turns(_named(names, entry))
        entity = tuple((kind, names[kind]) for kind in _in_kafkas_order(names, entry))
        try:
            quota_entity = checked_entity(names)
            place = place_of(quota_entity)
            if place.entity_type == IP_CONFIGS and place.name != DEFAULT_ENTITY:
                await _check_address(address_of, place.name)
            change = QuotaChange()
            await in_turns(_filled(change, quota_entity, entry))
            if is_stored:
                await change_entity(place.entity_type, place.name, change.applied)
        except QuotaError as error:
            outcomes[entity] = KafkaError(ErrorCode.INVALID_REQUEST, str(error))
        except KafkaError as error:
            outcomes[entity] = error.with_traceback(None)  # or it would hold all of them
        else:
            outcomes[entity] = None
    return outcomes


def _named(names: dict[str, str | None], entry: Entry) -> Iterator[None]:
    for component in entry.entity:  # of two of one type, the last one counts
        names[component.entity_type] = component.entity_name
        yield


def _in_kafkas_order(names: Mapping[str, str | None], entry: Entry) -> Iterable[str]:
    """Sort few types as Kafka answers them; many are refused."""
    if len(names) > len(QuotaEntity._fields):
        return names
    return hash_map_order(names, len(entry.entity), java_hash)


def _filled(change: QuotaChange, entity: QuotaEntity, entry: Entry) -> Iterator[None]:
    """Take over what an entry does. Raises QuotaError."""
    keys = keys_of(entity)
    for op in entry.ops:
        if op.remove:
            change.stored.pop(op.key, None)
            if op.key in keys:
                change.deleted.add(op.key)
        else:
            change.stored[op.key] = value_text(entity, op.key, op.value)
        yield


def place_of(entity: QuotaEntity) -> Place:
    """Return where the tree keeps an entity. Raises QuotaError for one that it cannot keep."""
    for kind, name in entity._asdict().items():
        if isinstance(name, str) and not has_node(name):
            raise QuotaError(f"{kind.replace('_', '-')} must not be {name}")
    if entity.ip is not None:
        return Place(IP_CONFIGS, _node(entity.ip))
    if entity.user is None:
        return Place(CLIENT_CONFIGS, _node(entity.client_id))
    user = _node(entity.user)
    if entity.client_id is None:
        return Place(USER_CONFIGS, user)
    return Place(USER_CONFIGS, f"{user}/{CLIENT_CONFIGS}/{_node(entity.client_id)}")


def entity_at(entity_type: str, name: str) -> QuotaEntity:
    """Return the entity that the tree keeps there. Raises QuotaError if it keeps none there.

    >>> str(entity_at("users", "ann/clients/<default>"))
    'user ann, default client-id'
    """
    if entity_type == IP_CONFIGS:
        return QuotaEntity(ip=_named_by(name))
    if entity_type == CLIENT_CONFIGS:
        return QuotaEntity(client_id=_named_by(name))
    user, _, inner = name.partition("/")
    if not inner:
        return QuotaEntity(user=_named_by(user))
    kind, _, client_id = inner.partition("/")
    if kind != CLIENT_CONFIGS or not client_id:
        raise QuotaError(f"{entity_type}/{name} is not the place of an entity")
    return QuotaEntity(user=_named_by(user), client_id=_named_by(client_id))


def value_text(entity: QuotaEntity, key: str, value: float) -> str:
    """Return the text that is stored for a value, as Kafka writes it. Raises QuotaError."""
    checked = checked_value(entity, key, value)
    return str(checked) if isinstance(checked, int) else java_double(checked)


def java_double(value: float) -> str:
    """The text of a number that Java's Double.toString gives.

    >>> [java_double(number) for number in (12.5, 200.0, 0.0, 1e7, 1.25e-4)]
    ['12.5', '200.0', '0.0', '1.0E7', '1.25E-4']
    """
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    texts = (f"{value:.{places}e}" for places in range(1, _PLACES))
    digits, _, exponent = next(text for text in texts if float(text) == value).partition("e")
    return f"{digits}E{int(exponent)}"


async def _check_address(address_of: AddressOf, name: str) -> None:
    # The name in the tree, so that Kafka's brokers can read it: they refuse one that was escaped.
    if await address_of(name) is None:
        raise QuotaError(f"{name} is not a valid IP or resolvable host.")


def _node(name: EntityName) -> str:
    return sanitized(name) if isinstance(name, str) else DEFAULT_ENTITY


def _named_by(node: str) -> EntityName:
    return DEFAULT if node == DEFAULT_ENTITY else entity_name(node)
