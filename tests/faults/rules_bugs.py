"""Known mistakes of access rules, each a context manager that makes brokers commit it.

The simulation must find every one of them: otherwise that it finds nothing means nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kbroker.acl.acl import AclPattern, Acls, Permission
from kbroker.acl.acl_rules import AclRules, SuperUsers, _OfType
from kbroker.admin import acl_authorizer, followed_nodes
from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.admin.followed_nodes import FollowedNodes
from kbroker.apis import envelope, fetch, served_api
from kbroker.apis.authorization import Handler, Need
from kbroker.apis.fetch_answers import with_refused
from kbroker.zk.nodes import acls
from kbroker.zk.nodes.acls import ZkAcls
from kbroker.zk.tree import ANY_VERSION, DeleteOp, SetOp, TreeError

Mistake = Callable[[], AbstractContextManager[Any]]


def allow_seen_before_deny() -> AbstractContextManager[Any]:
    """New rules come into force in two steps: what allows, and then what denies."""

    async def read_some(self: AclAuthorizer, patterns: Any) -> None:
        found = await self._stored.read(patterns)
        self.rules.replace({p: _allowing(each) for p, each in found.items()})
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        self.rules.replace(found)

    return patch.object(AclAuthorizer, "_read_some", read_some)


def _allowing(rules: Acls) -> Acls:
    return tuple(each for each in rules if each.permission is Permission.ALLOW)


def stale_decision_kept() -> AbstractContextManager[Any]:
    """Decisions about a name are remembered beyond a change."""

    def replace(self: AclRules, changes: Mapping[AclPattern, Acls]) -> None:
        for pattern, rules in changes.items():
            self._of_types[pattern.type].replace(pattern, rules)

    return patch.object(AclRules, "replace", replace)


def forwarded_unasked() -> AbstractContextManager[Any]:
    """A request for the controller is passed on, and left to the controller to refuse."""
    original = served_api.guarded

    def guarded(needs: tuple[Need, ...], handler: Handler) -> Handler:
        careful = original(needs, handler)

        def handle(ctx: Any, request: Any) -> Any:
            is_last = ctx.services.controller.is_active or ctx.connection.is_forwarded
            is_for_controller = ctx.header.api_key in (19, 20)
            return (careful if is_last or not is_for_controller else handler)(ctx, request)

        return handle

    return patch.object(served_api, "guarded", guarded)


def envelope_as_its_sender() -> AbstractContextManager[Any]:
    """A request that another broker passes on is done by that broker's rights."""
    original = envelope._inner_request

    def inner(ctx: Any, request: Any) -> Any:
        found = original(ctx, request)
        found.connection.principal = ctx.connection.principal
        return found

    return patch.object(envelope, "_inner_request", inner)


def session_not_asked_again() -> AbstractContextManager[Any]:
    """The topics of a session of fetches are asked about when it begins."""
    original = fetch._read_authorized

    def read(ctx: Any, params: Any, context: Any) -> Any:
        if context.session is not None and not context.named:
            return fetch._read(ctx, params, context, context.asked_for)
        return original(ctx, params, context)

    return patch.object(fetch, "_read_authorized", read)


def waiting_request_not_asked_again() -> AbstractContextManager[Any]:
    """A Fetch that has waited is answered by the rights that it began with."""

    def still(answers: Any, _ctx: Any, asked_for: Any, hidden: Any) -> Any:
        return with_refused(answers, asked_for, hidden)

    return patch.object(fetch, "still_allowed", still)


def lost_session_not_repaired() -> AbstractContextManager[Any]:
    """After a lost session only notifications that are still there are seen."""
    return patch.object(followed_nodes, "on_new_session", lambda _tree, _call: None)


def half_read_rules_in_force() -> AbstractContextManager[Any]:
    """All rules are read into those in force, which are emptied before."""

    async def read_all(self: AclAuthorizer) -> None:
        self.rules = AclRules(self._super_users)
        async for some in self._stored.every():
            self.rules.replace(some)

    return patch.object(AclAuthorizer, "_read_all", read_all)


def answered_before_enforced() -> AbstractContextManager[Any]:
    """A change is answered when the tree has it, and read with its notification."""

    async def change(self: AclAuthorizer, changes: Any) -> Any:
        return await self._stored.update(changes)

    return patch.object(AclAuthorizer, "change", change)


def deny_lost_at_a_write() -> AbstractContextManager[Any]:
    """Nodes are written whatever others have written meanwhile."""
    original = acls._write

    def write(path: str, after: Acls, stat: Any) -> Any:
        op = original(path, after, stat)
        return replace(op, version=ANY_VERSION) if isinstance(op, (SetOp, DeleteOp)) else op

    return patch.object(acls, "_write", write)


def prefix_walk_cut_short() -> AbstractContextManager[Any]:
    """The rules of the longest beginning of a name are taken for all of them."""
    original = _OfType.about

    def about(self: _OfType, name: str) -> Iterator[Any]:
        has_prefix = False
        for found in original(self, name):
            is_prefix = any(found is each for each in self.prefixed.values())
            if is_prefix and has_prefix:
                continue
            has_prefix |= is_prefix
            yield found

    return patch.object(_OfType, "about", about)


class _Beginnings(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith(tuple(self))


def super_user_by_a_prefix() -> AbstractContextManager[Any]:
    """Whose name begins as that of a super user is one."""
    original = AclRules.__init__

    def init(self: AclRules, super_users: SuperUsers) -> None:
        original(self, super_users._replace(names=_Beginnings(super_users.names)))

    return patch.object(AclRules, "__init__", init)


def addresses_as_they_are() -> AbstractContextManager[Any]:
    """IPv6 addresses are compared as Python writes them, IPv4 within them too."""
    return patch.object(acl_authorizer, "address_in_rules", lambda host: host)


class _Open:
    """A lock that keeps nobody out."""

    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, *_: object) -> None:
        return


@contextmanager
def earlier_reading_ends_later() -> Iterator[None]:
    """Readings overtake each other."""
    original = FollowedNodes.__init__

    def init(self: FollowedNodes[Any], *arguments: Any) -> None:
        original(self, *arguments)
        self._lock = _Open()  # type: ignore[assignment]

    with patch.object(FollowedNodes, "__init__", init):
        yield


def failed_reading_forgotten() -> AbstractContextManager[Any]:
    """A pattern that could not be read when it had changed is not read again."""

    async def apply(self: FollowedNodes[Any]) -> None:
        some, is_stale = self._changed, self._is_stale
        self._changed, self._is_stale = {}, False
        try:
            await (self._read_all() if is_stale else self.read(some))
        except TreeError:
            return

    return patch.object(FollowedNodes, "_apply", apply)


def unreadable_node_has_no_rules() -> AbstractContextManager[Any]:
    """A node that cannot be read denies nothing."""
    original = acls._read

    def read(pattern: AclPattern, path: str, data: bytes | None) -> Acls:
        found = original(pattern, path, data)
        return () if found is acls.CLOSED else found

    return patch.object(acls, "_read", read)


def prefixed_rules_not_followed() -> AbstractContextManager[Any]:
    """Notifications of beginnings of names are not watched."""
    original = FollowedNodes.__init__

    def init(self: FollowedNodes[Any], *arguments: Any) -> None:
        original(self, *arguments)
        del self._watchers[1:]

    return patch.object(FollowedNodes, "__init__", init)


def rules_read_after_the_start() -> AbstractContextManager[Any]:
    """A broker answers before it has read its rules."""

    async def start(self: AclAuthorizer) -> None:
        followed = self._followed
        followed_nodes.on_new_session(followed._tree, followed._on_new_session)
        await self._stored.create_paths()
        for watcher in followed._watchers:
            await watcher.start()
        followed._applying.start()
        followed._on_new_session()

    return patch.object(AclAuthorizer, "start", start)


def change_without_a_notification() -> AbstractContextManager[Any]:
    """A change is written, and its notification forgotten."""
    original = ZkAcls._writes

    async def writes(self: ZkAcls, *arguments: Any) -> Any:
        found = await original(self, *arguments)
        return {pattern: ops[:1] for pattern, ops in found.items()}

    return patch.object(ZkAcls, "_writes", writes)


PLANTED: tuple[Mistake, ...] = (
    allow_seen_before_deny,
    stale_decision_kept,
    forwarded_unasked,
    envelope_as_its_sender,
    session_not_asked_again,
    waiting_request_not_asked_again,
    lost_session_not_repaired,
    half_read_rules_in_force,
    answered_before_enforced,
    deny_lost_at_a_write,
    prefix_walk_cut_short,
    super_user_by_a_prefix,
    addresses_as_they_are,
    earlier_reading_ends_later,
    failed_reading_forgotten,
    unreadable_node_has_no_rules,
    prefixed_rules_not_followed,
    rules_read_after_the_start,
    change_without_a_notification,
)
