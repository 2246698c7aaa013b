"""The limits of users and client ids, and which of them holds for a client.

The order is Kafka's, for each kind of limit by itself: user and client id, user and any client id,
user, any user and the client id, any user and any client id, any user, client id, any client id.
The limit that is found says who shares it: a user's is one for all the user's client ids, but one
for any user is each user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kbroker.quotas.quota_entity import DEFAULT, EntityName, QuotaEntity
from kbroker.quotas.quota_keys import ClientQuotaType


class Tags(NamedTuple):
    """The clients whose use is counted together: those of a user, of a client id (the other is
    empty), or of both together.
    """

    user: str
    client_id: str
    others: tuple[tuple[str, str], ...] = ()  # tags of an own callback's, which mean what it says


class Limit(NamedTuple):
    """The limit of a client, and who shares it with it; None: there is none."""

    limit: float | None
    tags: Tags


_Names = tuple[EntityName, EntityName]


class ClientLimits:
    """The limits of users and client ids; false if there are none. Owned by the event loop."""

    __slots__ = ("_entities", "_limits", "changes")

    def __init__(self) -> None:
        self._entities: dict[_Names, frozenset[ClientQuotaType]] = {}
        self._limits: dict[ClientQuotaType, dict[_Names, float]] = {
            kind: {} for kind in ClientQuotaType
        }
        self.changes = 0
        """The number of changes so far: as long as it stays, so does each answer."""

    def __len__(self) -> int:
        """The number of entities that have limits."""
        return len(self._entities)

    def put(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        """Let these limits, by the names of their settings, take the place of those that the
        entity has. Raises ValueError for an address.
        """
        if entity.ip is not None or entity.user is entity.client_id is None:
            raise ValueError(f"{entity} has no limits of clients")
        names = entity.user, entity.client_id
        given = {kind: values[kind.value] for kind in ClientQuotaType if kind.value in values}
        before = self._entities.get(names, frozenset())
        if before == given.keys() and all(
            self._limits[kind][names] == given[kind] for kind in given
        ):
            return
        self.changes += 1
        for kind in before - given.keys():
            del self._limits[kind][names]
        for kind, limit in given.items():
            self._limits[kind][names] = limit
        if given:
            self._entities[names] = frozenset(given)
        else:
            del self._entities[names]

    def remove(self, entity: QuotaEntity) -> None:
        """Let an entity have no limits."""
        self.put(entity, {})

    def has(self, kind: ClientQuotaType) -> bool:
        """Whether anybody has a limit of this kind."""
        return bool(self._limits[kind])

    def limit_of(self, kind: ClientQuotaType, user: str, client_id: str | None) -> Limit:
        """The limit of a client with this user name and client id; without a client id, defaults
        hold all the same.
        """
        limits, client = self._limits[kind], client_id or ""
        both, of_user, of_client = Tags(user, client), Tags(user, ""), Tags("", client)
        for names, tags in (
            ((user, client), both),
            ((user, DEFAULT), both),
            ((user, None), of_user),
            ((DEFAULT, client), both),
            ((DEFAULT, DEFAULT), both),
            ((DEFAULT, None), of_user),
            ((None, client), of_client),
            ((None, DEFAULT), of_client),
        ):
            if (limit := limits.get(names)) is not None:
                return Limit(limit, tags)
        return Limit(None, of_client)
