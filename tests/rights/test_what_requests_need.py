"""Every request that is served, in every version, sent by whom nothing is allowed, by whom just
what it needs is, by whom all else is, by whom one right is denied beside it, and by a super user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle
from typing import Any

import pytest

from kbroker.acl.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    Acls,
    PatternType,
    Permission,
)
from kbroker.apis.registry import registered
from kbroker.protocol.messages.metadata import MetadataResponse
from tests.fakes.requests.error_codes import codes_in
from tests.fakes.running.virtual_loop import VirtualLoop
from tests.rights.needs import (
    DOOMED,
    GROUP,
    NOT_REFUSED,
    RESOURCES,
    ROWS,
    TOPIC,
    Need,
    Right,
    Row,
)
from tests.rights.ruled_broker import ADDRESS, ADMIN, ANONYMOUS, RuledBroker

REFUSALS = {29, 30, 31, 53, 65}
NOTHING_SENT = MetadataResponse()
_EVERY_OPERATION = tuple(AclOperation)[2:]
_IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}  # fmt: skip
Rules = dict[AclPattern, Acls]


class Ways:
    """Each rule is written in another way than the one before."""

    def __init__(self) -> None:
        self._patterns = cycle(("literal", "beginning", "all"))
        self._narrow = cycle(("literal", "beginning"))
        self._narrow = cycle(("literal", "beginning"))
        self._principals = cycle((ANONYMOUS, EVERYBODY))
        self._hosts = cycle((WILDCARD, ADDRESS))

    def rules(self, allowed: Sequence[Right], denied: Sequence[Right] = ()) -> Rules:
        found: dict[AclPattern, list[Acl]] = {}
        for rights, permission in ((allowed, Permission.ALLOW), (denied, Permission.DENY)):
            principal, host = next(self._principals), next(self._hosts)
            # To allow `*` would give what is left out of many rights.
            is_wide = permission is Permission.DENY or len(rights) < len(RESOURCES)
            for operation, resource in rights:
                way = next(self._patterns if is_wide else self._narrow)
                acl = Acl(principal, host, operation, permission)
                found.setdefault(_pattern(way, resource), []).append(acl)
        return {pattern: tuple(acls) for pattern, acls in found.items()}


def _pattern(way: str, resource: AclResource) -> AclPattern:
    if way == "all":
        return AclPattern(resource.type, WILDCARD, PatternType.LITERAL)
    if way == "beginning":
        return AclPattern(resource.type, resource.name[:-1], PatternType.PREFIXED)
    return AclPattern(resource.type, resource.name, PatternType.LITERAL)


WAYS = Ways()


def all_but(left_out: Iterable[Right]) -> list[Right]:
    """All operations on all resources, without some and what implies them."""
    missing = {
        (each, resource)
        for operation, resource in left_out
        for each in (operation, *_IMPLYING.get(operation, ()))
    }
    every = ((operation, resource) for operation in _EVERY_OPERATION for resource in RESOURCES)
    return [right for right in every if right not in missing]


def cases(row: Row, version: int) -> Iterator[tuple[str, Rules, Need | None]]:
    """Who asks, by which rules, and what is missing."""
    needs = row.needed(version)
    yield "with nothing", {}, needs[0] if needs else None
    for number in range(max((len(need.rights) for need in needs), default=1)):
        just = [need.rights[min(number, len(need.rights) - 1)] for need in needs]
        yield f"with {just}", WAYS.rules(just), None
    for need in needs:
        yield f"with all but {need.rights}", WAYS.rules(all_but(need.rights)), need
        yield f"with {need.rights} denied", WAYS.rules(all_but(()), need.rights), need
        for number in count() if len(need.rights) > 1 else ():
            if number == len(need.rights):
                break
            some = need.rights[number : number + 1]
            yield f"with another right than {some}", WAYS.rules(all_but(()), some), None


def seen(row: Row, answer: Any) -> str:
    """The outcome of a request, for whoever sent it."""
    if answer is None:
        return "closed"
    codes = codes_in(answer)
    if row.shows is not None and not codes & REFUSALS and not row.shows(answer):
        return "nothing shown"
    return f"refused with {sorted(codes & REFUSALS)}" if codes & REFUSALS else "done"


def expected(row: Row, missing: Need | None) -> str:
    if missing is None:
        return "done"
    if missing.code == NOT_REFUSED:
        return "closed" if row.closes_unanswered else "nothing shown"
    return f"refused with [{missing.code}]"


def is_as_allowed(row: Row, answer: Any) -> bool:
    return answer is not None and codes_in(answer) - {0} <= row.allowed


async def asked(broker: RuledBroker, row: Row, version: int, principal: str) -> Any:
    about = {resource for need in row.needs for _, resource in need.rights}
    if DOOMED in about:
        await broker.create(DOOMED.name)
    if GROUP in about:
        await broker.commit(GROUP.name, TOPIC.name)
    if row.closes_unanswered:
        connection = await broker.send(principal, row.key, version, row.values)
        await asyncio.sleep(0.5)
        return None if connection.wire.is_closed else NOTHING_SENT
    return await broker.ask(principal, row.key, version, row.values, has_login=row.has_login)


async def differences(broker: RuledBroker, row: Row, version: int) -> list[str]:
    """The outcomes of a request that are not those of the table."""
    found = []
    where = f"{registered()[row.key].name} {row.variant} v{version}"
    for who, rules, missing in cases(row, version):
        broker.rule(rules)
        answer = await asked(broker, row, version, ANONYMOUS)
        outcome = seen(row, answer)
        if outcome != expected(row, missing):
            found.append(f"{where} {who}: {outcome}, expected {expected(row, missing)}; {rules}")
        elif missing is None and not is_as_allowed(row, answer):
            found.append(f"{where} {who}: {answer}")
    denied = [(operation, resource) for operation in _EVERY_OPERATION for resource in RESOURCES]
    broker.rule(WAYS.rules((), denied))
    answer = await asked(broker, row, version, ADMIN)
    if seen(row, answer) != "done" or not is_as_allowed(row, answer):
        found.append(f"{where} as super user: {answer}")
    return found


def versions_of(key: int) -> Iterator[tuple[Row, int]]:
    for row in ROWS:
        if row.key == key:
            served = registered()[key].versions
            for version in range(served.lowest, served.highest + 1):
                if version in row.served_versions:
                    yield row, version


@pytest.mark.parametrize("key", sorted({row.key for row in ROWS} & set(registered())))
def test_a_request_is_done_for_whom_may_and_refused_to_others(
    loop: VirtualLoop, broker: RuledBroker, key: int
) -> None:
    async def all_differences() -> list[str]:
        await broker.commit("workers", "orders")
        return [
            each
            for row, version in versions_of(key)
            for each in await differences(broker, row, version)
        ]

    assert loop.run_until_complete(all_differences()) == []


def test_every_version_of_every_request_has_a_row() -> None:
    without = [
        f"{api.name} v{version} is served, and tests/rights/needs.py does not say what it needs"
        for key, api in registered().items()
        for version in range(api.versions.lowest, api.versions.highest + 1)
        if version not in {each for _, each in versions_of(key)}
    ]

    assert without == []
