"""Who may not see a topic, a group or a transactional id is answered in the same bytes whether it
exists or not: by every request that names one, in every version, also through another broker, alone
and between others that may be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from kbroker.acl.acl import (
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    AclResourceType,
    Acls,
    PatternType,
    Permission,
)
from kbroker.apis.registry import registered
from kbroker.peers.forwarding_manager import encode_principal, pack_address
from tests.fakes.requests.error_codes import codes_in
from tests.fakes.running.virtual_loop import VirtualLoop
from tests.rights.needs import NEW, ROWS, Row
from tests.rights.ruled_broker import (
    ADDRESS,
    ADMIN,
    ANONYMOUS,
    NOBODYS_ID,
    IdOf,
    RuledBroker,
)

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
# By kind: one that exists, and a name of the same length that nothing has.
THERE = {TOPIC: "orders", GROUP: "workers", TRANSACTIONAL_ID: "move"}
NOWHERE = {TOPIC: "absent", GROUP: "nobodys", TRANSACTIONAL_ID: "none"}
OTHER_TOPIC = "second"  # its id is asked for where an id has to be one of a topic
BEFORE, AFTER = "a-seen", "z-seen"  # may be seen, and stand around the one that may not
_LOST = "-lost"  # names of what was never there: requests that change something find it unchanged
_CHANGING = {0, 20, 42}
ENVELOPE = 58
UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED = 100, 29
Change = Callable[[Any], Any]


def named(value: Any, change: Change) -> Any:
    """The same values with other names."""
    if isinstance(value, Mapping):
        return {key: named(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [named(each, change) for each in value]
    return change(value) if isinstance(value, str) else value


def renamed(value: str, old: str, new: str, new_id: str) -> str:
    if value != old:
        return value
    return IdOf(new_id) if isinstance(value, IdOf) else new


def is_about(value: Any, name: str) -> bool:
    """Whether an entry of an array is, or has, this name."""
    return value == name or (isinstance(value, Mapping) and name in value.values())


def surrounded(value: Any, name: str, others: Sequence[str]) -> Any:
    """The same values, with entries about others around each that has this name."""
    if isinstance(value, Mapping):
        return {key: surrounded(each, name, others) for key, each in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    found = []
    for each in value:
        if is_about(each, name):
            before, after = (named(each, renaming(name, other)) for other in others)
            found += [before, each, after]
        else:
            found.append(surrounded(each, name, others))
    return found


def renaming(old: str, new: str, new_id: str | None = None) -> Change:
    return partial(renamed, old=old, new=new, new_id=new_id or new)


def all_but(hidden: AclResource, *, denied: bool) -> dict[AclPattern, Acls]:
    """Everything is allowed, but for the cluster, and for one resource, which no rule is about or
    which is denied.
    """
    allow = Acl(ANONYMOUS, WILDCARD, AclOperation.ALL, Permission.ALLOW)
    deny = allow._replace(permission=Permission.DENY)
    rules: dict[AclPattern, Acls] = {}
    for kind in THERE:
        if kind is not hidden.type or denied:
            rules[AclPattern(kind, WILDCARD)] = (allow,)
    for name in (BEFORE, AFTER):
        rules[AclPattern(hidden.type, name[:2], PatternType.PREFIXED)] = (allow,)
    if denied:
        for name in (THERE[hidden.type], NOWHERE[hidden.type], OTHER_TOPIC):
            rules[AclPattern(hidden.type, name)] = (deny,)
    return rules


def names_of(row: Row) -> set[AclResource]:
    """The resources that a row names and that may be hidden."""
    about = {resource for need in row.needs for _, resource in need.rights}
    return {each for each in about if each.type in THERE and is_in(row.values, each.name)}


def is_in(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return any(is_in(each, name) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(is_in(each, name) for each in value)
    return bool(value == name)


class Asked:
    """The answers about two names, without the names themselves."""

    def __init__(self, broker: RuledBroker, row: Row, version: int, hidden: AclResource) -> None:
        self._broker, self._row, self._version, self._hidden = broker, row, version, hidden

    async def about(self, name: str, topic_with_id: str, *, forwarded: bool, among: bool) -> Any:
        """The bytes of the answer, in which every name and id stands for any."""
        row, broker = self._row, self._broker
        values: Any = row.values
        if among:
            others = [
                f"{each}{_LOST}" if row.key in _CHANGING else each for each in (BEFORE, AFTER)
            ]
            values = surrounded(values, self._hidden.name, others)
        values = named(values, renaming(self._hidden.name, name, topic_with_id))
        if forwarded:
            data = await self._through_another(values)
        else:
            data = await broker.answer_to(ANONYMOUS, row.key, self._version, values)
        if data is None:
            return None
        its_id = broker.topic_id(topic_with_id)
        assert isinstance(its_id, UUID)
        return data.replace(name.encode(), b"?" * len(name)).replace(its_id.bytes, b"#" * 16)

    async def _through_another(self, values: Mapping[str, Any]) -> bytes:
        frame = self._broker.frame(self._row.key, self._version, values)
        wrapped = {
            "request_data": bytes(frame),
            "request_principal": encode_principal(ANONYMOUS, has_token=False),
            "client_host_address": pack_address(ADDRESS),
        }
        answer = await self._broker.ask(ADMIN, ENVELOPE, 0, wrapped)
        assert answer.error_code == 0, answer
        return bytes(answer.response_data)


async def differences(broker: RuledBroker, row: Row, version: int) -> list[str]:
    """Answers that tell what exists from what does not."""
    api = registered()[row.key]
    found = []
    for hidden in names_of(row):
        asked = Asked(broker, row, version, hidden)
        there, nowhere = THERE[hidden.type], NOWHERE[hidden.type]
        for rules in ({}, all_but(hidden, denied=False), all_but(hidden, denied=True)):
            broker.rule(rules)
            for forwarded in (False, True) if api.forwarded else (False,):
                for among in (False, True):
                    how: dict[str, Any] = {"forwarded": forwarded, "among": among}
                    of_there = await asked.about(there, "orders", **how)
                    other = OTHER_TOPIC if hidden.type is TOPIC else "orders"
                    of_nowhere = await asked.about(nowhere, other, **how)
                    if of_there != of_nowhere:
                        found.append(
                            f"{api.name} {row.variant} v{version}, {hidden}, {how}, {rules}:\n"
                            f"{of_there!r}\n{of_nowhere!r}"
                        )
    return found


async def filled(broker: RuledBroker) -> None:
    for topic in (OTHER_TOPIC, BEFORE, AFTER):
        await broker.create(topic)
    await broker.commit("workers", "orders")
    for group in (BEFORE, AFTER):
        await broker.commit(group, BEFORE)


NAMING = sorted({row.key for row in ROWS if names_of(row)} & set(registered()))


def versions_of(key: int) -> Iterator[tuple[Row, int]]:
    versions = registered()[key].versions
    for row in ROWS:
        if row.key == key:
            for version in range(versions.lowest, versions.highest + 1):
                if version in row.served_versions:
                    yield row, version


@pytest.mark.parametrize("key", NAMING)
def test_what_may_not_be_seen_is_answered_alike_whether_it_exists(
    loop: VirtualLoop, broker: RuledBroker, key: int
) -> None:
    async def all_differences() -> list[str]:
        await filled(broker)
        return [
            each for row, version in versions_of(key)
            for each in await differences(broker, row, version)
        ]  # fmt: skip

    assert loop.run_until_complete(all_differences()) == []


def test_who_may_see_is_answered_otherwise(
    loop: VirtualLoop, broker: RuledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    telling = [15, 65, 1, 2, 3, 8, 9, 21, 23, 32, 37, 44, 61, 75]  # some make what they name
    monkeypatch.setattr(broker, "rule", lambda _: None)
    monkeypatch.setattr("tests.rights.test_unseen_names.ANONYMOUS", ADMIN)

    async def told_apart() -> set[int]:
        await filled(broker)
        return {
            key for key in telling for row, version in versions_of(key)
            if await differences(broker, row, version)
        }  # fmt: skip

    found = loop.run_until_complete(told_apart())
    assert found == set(telling)


def test_lists_do_not_change_with_what_may_not_be_seen(
    loop: VirtualLoop, broker: RuledBroker
) -> None:
    """Nor do the offsets of a group that may be seen, with those of a topic that may not."""
    asked = [(row, version) for key in {row.key for row in ROWS} & set(registered())
             for row, version in versions_of(key) if row.shows is not None and key not in {41, 60}]  # fmt: skip

    async def answers() -> list[bytes | None]:
        found = []
        for rules in ({}, all_but(AclResource(TOPIC, ""), denied=False)):
            broker.rule(rules)
            found += [
                await broker.answer_to(ANONYMOUS, row.key, version, row.values)
                for row, version in asked
                if rules or row.key != 9
            ]
        return found

    async def before_and_after() -> tuple[list[bytes | None], list[bytes | None]]:
        await filled(broker)
        before = await answers()
        await broker.create("later")
        await broker.commit("workers", "later")
        return before, await answers()

    before, after = loop.run_until_complete(before_and_after())
    assert before == after


def test_an_id_is_not_a_secret_but_its_name_is(loop: VirtualLoop, broker: RuledBroker) -> None:
    """As in Apache Kafka: who names a topic by its id hears whether there is one of this id."""
    hidden = AclResource(TOPIC, "orders")

    async def codes(row: Row, version: int, name: str) -> set[int]:
        values = named(row.values, renaming(NEW.name, name))
        values = named(values, renaming("orders", name))
        frame = broker.frame(row.key, version, values)
        its_id = NOBODYS_ID if name == "absent" else broker.topic_id(name)
        if its_id.bytes not in frame:
            return set()
        data = await broker.answer_to(ANONYMOUS, row.key, version, values)
        assert data is None or name.encode() not in data
        return set() if data is None else codes_in(broker.answer(row.key, version, data)) - {0}

    async def all_codes() -> dict[str, set[int]]:
        await filled(broker)
        broker.rule(all_but(hidden, denied=False))
        found: dict[str, set[int]] = {"orders": set(), "absent": set()}
        for key in NAMING:
            for row, version in versions_of(key):
                if row.variant == "follower":  # refused as a whole
                    continue
                for name, its in found.items():
                    its |= await codes(row, version, name)
        return found

    assert loop.run_until_complete(all_codes()) == {
        "orders": {TOPIC_AUTHORIZATION_FAILED},
        "absent": {UNKNOWN_TOPIC_ID},
    }
