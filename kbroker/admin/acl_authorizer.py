"""AclAuthorizer: decides by the rules in the tree, which it follows (KIP-11, KIP-290).

Law: all rules are known before the first decision, and followed as by `FollowedNodes`; what is in
force stays so until what was read takes its place at once. A change that this broker makes is in
force here when `change` returns.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from kbroker.acl.acl import AclOperation, AclPattern, AclResource, AclResourceType, Acls
from kbroker.acl.acl_rules import AclRules, SuperUsers
from kbroker.admin.followed_nodes import FollowedNodes, Reading
from kbroker.clock import Clock
from kbroker.ip_addresses import address_in_rules
from kbroker.protocol.request import ConnectionInfo
from kbroker.rare_collections import collecting_all_rarely
from kbroker.slices import slices
from kbroker.turns import ENTRIES, in_turns, turn
from kbroker.zk.nodes.acl_znodes import CHANGES, decode_change
from kbroker.zk.nodes.acls import Change, Refusal, ZkAcls
from kbroker.zk.zk_utils import ZkUtils

_READ_AT_ONCE = 32
REPLACED_AT_ONCE = 5_000  # patterns: a few milliseconds
_LOOKS = 3  # while rules change, before it is looked without a turn for others
_LOOKED_THROUGH = 500  # rules, for the one that decides: a millisecond


class AclAuthorizer:
    """The authorizer of one broker (a RuledAuthorizer)."""

    has_rules: ClassVar[bool] = True

    def __init__(self, zk: ZkUtils, clock: Clock, super_users: SuperUsers) -> None:
        self._clock = clock
        self._stored = ZkAcls(zk)
        self._looking = asyncio.Lock()  # most who ask at once ask the same
        self._super_users = super_users
        self.rules = AclRules(super_users)
        reading = Reading(self._read_some, self._read_all, decode_change)
        self._followed = FollowedNodes("access rules", zk.tree, CHANGES.values(), reading, clock)

    async def start(self) -> None:
        """Read all rules, and follow their changes. Raises TreeError."""
        await self._stored.create_paths()
        await self._followed.start()

    async def stop(self) -> None:
        """Follow changes no longer."""
        await self._followed.stop()

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether the principal of a connection, at its address, may do this."""
        host = address_in_rules(connection.peer_host)
        return self.rules.is_granted(connection.principal, host, operation, resource)

    def permits(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether it may do this, for somebody who asks `authorize` after a no."""
        host = address_in_rules(connection.peer_host)
        return self.rules.is_granted(connection.principal, host, operation, resource)

    def rules_for(self, connection: ConnectionInfo) -> object:
        """The rules of now, and whom they are asked for."""
        return self.rules.since, connection.principal, connection.peer_host

    def reason(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> str:
        """The rule that decides so, in the words of `kbroker acl`; without one, what Kafka's
        StandardAuthorizer calls that.
        """
        from kbroker.acl.rule_words import AclRule  # few lines are written
        from kbroker.acl.verdict import Asked, verdict_on

        principal, super_users = connection.principal, self._super_users
        if principal in super_users.names:
            return "SuperUser"
        about = self.rules.about(resource, _LOOKED_THROUGH)
        if about is None:
            return f"(one of more than {_LOOKED_THROUGH:,})"
        if not about and super_users.are_all_where_no_rule_is:
            return "DefaultAllow"
        host = address_in_rules(connection.peer_host)
        rules = [AclRule(*each) for each in about]
        found = verdict_on(Asked(principal, host, operation, resource), rules).by
        return found if found.startswith(("allow ", "deny ")) else "DefaultDeny"

    async def authorize_by_resource_type(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether it may do this to at least one resource of that type."""
        host = address_in_rules(connection.peer_host)
        asked = connection.principal, host, operation, resource_type
        known = self.rules.known_somewhere(*asked)
        if known is None:
            async with self._looking:
                for _ in range(_LOOKS):
                    await in_turns(self.rules.look_somewhere(*asked))
            known = self.rules.is_granted_somewhere(*asked)
        return known

    async def change(
        self, changes: Mapping[AclPattern, Change]
    ) -> dict[AclPattern, Refusal | None]:
        """Change the rules of each pattern by itself; returns what refused it, or None. What was
        changed is in force when this returns. Raises TreeUnavailableError: some may be changed.
        """
        outcomes = await self._stored.update(changes)
        await self._followed.read(changes)
        return outcomes

    async def _read_some(self, patterns: list[AclPattern]) -> None:
        with collecting_all_rarely():
            found: dict[AclPattern, Acls] = {}
            for some in slices(patterns, _READ_AT_ONCE):
                found |= await self._stored.read(some)
                await turn()
            if len(found) <= REPLACED_AT_ONCE:
                self.rules.replace(found)
            else:
                await self._replace_many(found)

    async def _replace_many(self, found: dict[AclPattern, Acls]) -> None:
        """Take over the rules of many patterns in one step, which is made beside those in force."""
        rules, before = AclRules(self._super_users), self.rules
        for some in slices(before.patterns(), ENTRIES):
            rules.replace({each: before.acls(each) for each in some if each not in found})
            await turn()
        for some in slices(found, ENTRIES):
            rules.replace({pattern: found[pattern] for pattern in some})
            await turn()
        self.rules = rules

    async def _read_all(self) -> None:
        """Build the rules aside: others decide by the former ones meanwhile."""
        rules = AclRules(self._super_users)
        async for some in self._stored.every(self._clock.now_ms()):
            rules.replace(some)
            await turn()
        self.rules = rules
