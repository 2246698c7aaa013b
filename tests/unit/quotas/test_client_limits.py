"""Which limit holds for a client, and who shares it."""

from __future__ import annotations

import random
from itertools import product

import pytest

from kbroker.quotas.client_limits import ClientLimits, Limit, Tags
from kbroker.quotas.quota_entity import DEFAULT, EntityName, QuotaEntity
from kbroker.quotas.quota_keys import ClientQuotaType

KINDS = list(ClientQuotaType)
USERS: list[EntityName] = ["ann", "bob", DEFAULT, None]
CLIENTS: list[EntityName] = ["app", "", "bob", DEFAULT, None]
ENTITIES = [QuotaEntity(*names) for names in product(USERS, CLIENTS)][:-1]


def naive(
    given: dict[QuotaEntity, dict[str, float]], kind: ClientQuotaType, user: str, client: str
) -> tuple[float | None, tuple[str, str] | None]:
    """The first of Kafka's eight levels that has a limit of this kind, and who shares it."""
    levels = [
        (QuotaEntity(user, client), (user, client)),
        (QuotaEntity(user, DEFAULT), (user, client)),
        (QuotaEntity(user), (user, "")),
        (QuotaEntity(DEFAULT, client), (user, client)),
        (QuotaEntity(DEFAULT, DEFAULT), (user, client)),
        (QuotaEntity(DEFAULT), (user, "")),
        (QuotaEntity(None, client), ("", client)),
        (QuotaEntity(None, DEFAULT), ("", client)),
    ]
    for entity, tags in levels:
        if kind.value in given.get(entity, {}):
            return given[entity][kind.value], tags
    return None, None


def test_the_limit_is_that_of_a_naive_model_whatever_was_put_and_removed_before() -> None:
    chance = random.Random(1)
    limits = ClientLimits()
    given: dict[QuotaEntity, dict[str, float]] = {}
    for _ in range(3_000):
        entity = chance.choice(ENTITIES)
        if chance.random() < 0.5:
            given.pop(entity, None)
            limits.remove(entity)
        else:
            values = {
                kind.value: float(chance.randrange(9)) for kind in KINDS if chance.random() < 0.5
            }
            given[entity] = values
            limits.put(entity, values)
        kind, user, client = chance.choice(KINDS), chance.choice(["ann", "bob", "eve"]), "app"
        limit, tags = naive(given, kind, user, client)
        found = limits.limit_of(kind, user, client)
        assert found.limit == limit
        assert limit is None or found.tags == (*tags, ())
        assert len(limits) == sum(map(bool, given.values()))


def test_limits_are_false_until_somebody_has_one_and_again_when_nobody_has() -> None:
    limits, ann = ClientLimits(), QuotaEntity(user="ann")
    assert not limits
    limits.put(ann, {"producer_byte_rate": 0.0})
    assert limits
    assert limits.has(ClientQuotaType.PRODUCE)
    assert not limits.has(ClientQuotaType.FETCH)
    limits.remove(ann)
    assert not limits


def test_only_what_changes_something_counts_as_a_change() -> None:
    limits, ann = ClientLimits(), QuotaEntity(user="ann")
    limits.remove(ann)
    assert limits.changes == 0
    for _ in range(2):
        limits.put(ann, {"producer_byte_rate": 5, "unknown": 7})
    assert limits.changes == 1
    limits.put(ann, {"producer_byte_rate": 6})
    limits.put(ann, {})
    assert limits.changes == 3


def test_a_client_without_an_id_does_not_escape_a_default() -> None:
    limits = ClientLimits()
    limits.put(QuotaEntity(client_id=DEFAULT), {"producer_byte_rate": 5})
    limits.put(QuotaEntity("ann", DEFAULT), {"producer_byte_rate": 7})
    for client_id in (None, ""):
        assert limits.limit_of(ClientQuotaType.PRODUCE, "bob", client_id) == Limit(5, Tags("", ""))
        assert limits.limit_of(ClientQuotaType.PRODUCE, "ann", client_id) == Limit(
            7, Tags("ann", "")
        )


@pytest.mark.parametrize("entity", [QuotaEntity(), QuotaEntity(ip="1.1.1.1")])
def test_what_is_not_a_client_has_no_limits_of_clients(entity: QuotaEntity) -> None:
    with pytest.raises(ValueError, match="no limits of clients"):
        ClientLimits().put(entity, {"producer_byte_rate": 5})
