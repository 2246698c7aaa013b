"""FollowedQuotas: the limits of users, client ids and addresses, as the tree has them.

Law: the limits in force are those of the last node that could be read. What cannot be read is named
in the log, and leaves in force what the entity had.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kbroker.admin.client_quota_changes import AddressOf, entity_at
from kbroker.admin.host_names import address_of, is_address
from kbroker.errors import ConfigError
from kbroker.quotas.quota_entity import CLIENT_KEYS, QuotaEntity, QuotaError, limit_in
from kbroker.quotas.quota_keys import CONNECTION_CREATION_RATE
from kbroker.zk import zk_paths

_log = logging.getLogger(__name__)
_LOOKED_UP_AT_ONCE = 8  # hosts: each takes a thread, some of them for long

PutAddress = Callable[[str | None, int | None], None]
"""(address or None for all others, connections in a second or None for no limit of its own)"""


class LimitsOfClients(Protocol):
    """Keeps or passes on the limits of users and client ids."""

    changes: int

    def put(self, entity: QuotaEntity, values: Mapping[str, float], /) -> None:
        """Let these limits take the place of those that an entity has."""
        ...


class FollowedQuotas:
    """The limits of one cluster. `on_change` is called after each change of those of clients."""

    def __init__(
        self,
        limits: LimitsOfClients,
        put_address: PutAddress,
        on_change: Callable[[], None] = lambda: None,
        find_address: AddressOf = address_of,
    ) -> None:
        self._limits = limits
        self._put_address = put_address
        self._on_change = on_change
        self._find_address = find_address
        self._found: dict[str, str] = {}  # addresses of hosts that have a limit
        self._finding: dict[str, asyncio.Task[None]] = {}
        self._looking = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)

    async def stop(self) -> None:
        """Look for no further addresses."""
        finding = list(self._finding.values())
        for task in finding:
            task.cancel()
        await asyncio.gather(*finding, return_exceptions=True)

    def changed(self, entity_type: str, name: str, overrides: Mapping[str, str]) -> None:
        """Take over what a node holds now. Raises ConfigError."""
        if entity_type == zk_paths.IP_CONFIGS:
            self.address_changed(name, overrides)
        else:
            self.clients_changed(entity_type, name, overrides)

    def clients_changed(self, entity_type: str, name: str, overrides: Mapping[str, str]) -> None:
        """Take over what the node of a user, a client id or both holds now. Raises ConfigError."""
        try:
            entity = entity_at(entity_type, name)
            before = self._limits.changes
            self._limits.put(entity, _numbers(CLIENT_KEYS, overrides))
        except QuotaError as error:
            raise ConfigError(str(error)) from error
        if self._limits.changes != before:
            self._on_change()

    def address_changed(self, name: str, overrides: Mapping[str, str]) -> None:
        """Take over what the node of an address holds now; of a host, once its address is found.
        Raises ConfigError.
        """
        try:
            rate = _numbers((CONNECTION_CREATION_RATE,), overrides).get(CONNECTION_CREATION_RATE)
        except QuotaError as error:
            raise ConfigError(str(error)) from error
        per_s = None if rate is None else int(rate)
        entity: QuotaEntity = entity_at(zk_paths.IP_CONFIGS, name)
        if not isinstance(entity.ip, str):
            self._put_address(None, per_s)
        elif is_address(entity.ip):
            self._put_address(entity.ip, per_s)
        else:
            self._host_changed(entity.ip, per_s)

    # ---- inside

    def _host_changed(self, name: str, per_s: int | None) -> None:
        before = self._finding.pop(name, None)
        if before is not None:
            before.cancel()
        if per_s is None:
            known = self._found.pop(name, None)
            if known is not None:
                self._put_address(known, None)
            return
        task = asyncio.get_running_loop().create_task(self._find(name, per_s), name="host-quota")
        self._finding[name] = task

    async def _find(self, name: str, per_s: int) -> None:
        async with self._looking:
            address = await self._find_address(name)
        del self._finding[name]
        if address is None:
            _log.error("the quota of host %s is not applied: it has no address", name)
            return
        known = self._found.get(name)
        if known not in (None, address):
            self._put_address(known, None)
        self._found[name] = address
        self._put_address(address, per_s)


def _numbers(keys: Iterable[str], overrides: Mapping[str, str]) -> dict[str, float]:
    return {key: limit_in(key, overrides[key]) for key in keys if key in overrides}
