"""AclAuthorizer: decides by the rules in the tree, which it follows (KIP-11, KIP-290).

Law: all rules are known before the first decision. Each notification makes the rules of its pattern
be read again, and the loss of a session makes all be read again, as notifications may be gone; what
is in force stays so until what was read takes its place at once. A change that this broker makes is
in force here when `create` or `delete` returns.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct

from kbroker.acl.acl import AclOperation, AclPattern, AclResource, AclResourceType, Acls
from kbroker.acl.acl_rules import AclRules, SuperUsers
from kbroker.clock import Clock
from kbroker.protocol.request import ConnectionInfo
from kbroker.turns import turn
from kbroker.zk.nodes.acl_znodes import CHANGES, decode_change
from kbroker.zk.nodes.acls import Change, Refusal, ZkAcls
from kbroker.zk.tree import TreeError
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.zk_watchers import (
    RETRY_BACKOFF_S,
    ChangeNotificationWatcher,
    RepeatedReading,
    on_new_session,
)
from kbroker.zk.znode_json import ZnodeFormatError

_log = logging.getLogger(__name__)

_READ_AT_ONCE = 32
_ADDRESSES_KEPT = 1_000
_IPV6 = Struct(">8H")
_IPV4_WITHIN = bytes(10) + b"\xff\xff"


class AclAuthorizer:
    """The authorizer of one broker."""

    def __init__(self, zk: ZkUtils, clock: Clock, super_users: SuperUsers) -> None:
        self._tree = zk.tree
        self._clock = clock
        self._stored = ZkAcls(zk)
        self._super_users = super_users
        self.rules = AclRules(super_users)
        self._is_stale = False  # everything has to be read again
        self._changed: dict[AclPattern, None] = {}
        self._reading = asyncio.Lock()  # one that began earlier must not end later
        self._watchers = [
            ChangeNotificationWatcher(zk.tree, root, self._on_notification, clock)
            for root in CHANGES.values()
        ]
        self._applying = RepeatedReading("changed access rules", self._apply_all)

    async def start(self) -> None:
        """Read all rules, and follow their changes. Raises TreeError."""
        on_new_session(self._tree, self._on_new_session)
        await self._stored.create_paths()
        for watcher in self._watchers:
            await watcher.start()
        await self._read_all()
        self._applying.start()

    async def stop(self) -> None:
        """Follow changes no longer."""
        for watcher in self._watchers:
            await watcher.stop()
        await self._applying.stop()

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether the principal of a connection, at its address, may do this."""
        host = address_in_rules(connection.peer_host)
        return self.rules.is_granted(connection.principal, host, operation, resource)

    def authorize_by_resource_type(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether it may do this to at least one resource of that type."""
        host = address_in_rules(connection.peer_host)
        return self.rules.is_granted_somewhere(connection.principal, host, operation, resource_type)

    async def change(
        self, changes: Mapping[AclPattern, Change]
    ) -> dict[AclPattern, Refusal | None]:
        """Change the rules of each pattern by itself; returns what refused it, or None. What was
        changed is in force when this returns. Raises TreeUnavailableError: some may be changed.
        """
        outcomes = await self._stored.update(changes)
        await self._read_some(list(changes))
        return outcomes

    def _on_notification(self, data: bytes | None) -> None:
        """Raises ZnodeFormatError for one that does not say what has changed: it may be a deny."""
        self._applying.again()
        try:
            self._changed[decode_change(data)] = None
        except ZnodeFormatError:
            self._is_stale = True
            raise

    def _on_new_session(self) -> None:
        self._is_stale = True
        self._applying.again()

    async def _apply_all(self) -> None:
        while self._is_stale or self._changed:
            try:
                await self._apply()
            except TreeError:
                raise
            except Exception:  # a bug, or the rules would be followed no more
                _log.exception("changed access rules cannot be read; all are read again")
                self._is_stale = True
                await asyncio.sleep(RETRY_BACKOFF_S)

    async def _apply(self) -> None:
        """Read what has changed; it goes on waiting if the tree is away."""
        some, is_stale = self._changed, self._is_stale
        self._changed, self._is_stale = {}, False
        try:
            if is_stale:
                await self._read_all()
            else:
                await self._read_some(list(some))
        except TreeError:
            self._changed = {**some, **self._changed}
            self._is_stale |= is_stale  # a session that was lost meanwhile has set it, too
            raise

    async def _read_some(self, patterns: Sequence[AclPattern]) -> None:
        async with self._reading:
            found: dict[AclPattern, Acls] = {}
            for start in range(0, len(patterns), _READ_AT_ONCE):
                found |= await self._stored.read(patterns[start : start + _READ_AT_ONCE])
                await turn()
            self.rules.replace(found)

    async def _read_all(self) -> None:
        """Build the rules aside: others decide by the former ones meanwhile."""
        async with self._reading:
            rules = AclRules(self._super_users)
            async for some in self._stored.every(self._clock.now_ms()):
                rules.replace(some)
                await turn()
            self.rules = rules


@lru_cache(_ADDRESSES_KEPT)
def address_in_rules(host: str) -> str:
    """An address as Java writes it, and rules have it: IPv6 in full, IPv4 within it alone.

    >>> address_in_rules("::1"), address_in_rules("::ffff:10.0.0.1")
    ('0:0:0:0:0:0:0:1', '10.0.0.1')
    """
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    packed = socket.inet_pton(socket.AF_INET6, address)
    if packed.startswith(_IPV4_WITHIN):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return ":".join(f"{part:x}" for part in _IPV6.unpack(packed)) + percent + zone
