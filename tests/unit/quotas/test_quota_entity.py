"""Entities and values that quotas may have."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from kbroker.quotas.quota_entity import (
    DEFAULT,
    QuotaEntity,
    QuotaError,
    checked_entity,
    checked_value,
    limit_in,
)

ANN = QuotaEntity(user="ann")


@pytest.mark.parametrize(
    ("names", "entity", "text"),
    [
        ({"user": "ann"}, ANN, "user ann"),
        ({"user": None}, QuotaEntity(user=DEFAULT), "default user"),
        (
            {"client-id": None, "user": "ann"},
            QuotaEntity("ann", DEFAULT),
            "user ann, default client-id",
        ),
        ({"ip": "1.2.3.4"}, QuotaEntity(ip="1.2.3.4"), "ip 1.2.3.4"),
    ],
)
def test_an_entity_has_the_names_of_a_request(
    names: Mapping[str, str | None], entity: QuotaEntity, text: str
) -> None:
    assert checked_entity(names) == entity
    assert str(entity) == text


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"thing": "a"}, "Unhandled client quota entity type: thing"),
        ({"user": ""}, "Empty user not supported"),
        ({"user": "ann", "ip": "1.2.3.4"}, "IP entity should not be used with user/client ID"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(names: Mapping[str, str | None], reason: str) -> None:
    with pytest.raises(QuotaError, match=reason):
        checked_entity(names)


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("producer_byte_rate", 1024.0, 1024),
        ("producer_byte_rate", 0.0, 0),
        ("consumer_byte_rate", 10.0000001, 10),
        ("consumer_byte_rate", 9.9999999, 10),
        ("request_percentage", 0.5, 0.5),
        ("request_percentage", 1e308, 1e308),
        ("producer_byte_rate", 1.5, None),
        ("producer_byte_rate", -1.0, None),
        ("producer_byte_rate", 1e308, None),
        ("producer_byte_rate", math.nan, None),
        ("producer_byte_rate", math.inf, None),
        ("controller_mutation_rate", math.nan, None),
        ("controller_mutation_rate", -0.1, None),
        ("connection_creation_rate", 1.0, None),
        ("nope", 1.0, None),
    ],
)
def test_a_value_is_taken_as_it_is_stored_or_refused(
    key: str, value: float, stored: float | None
) -> None:
    if stored is None:
        with pytest.raises(QuotaError, match=f"onfiguration (key )?{key}"):
            checked_value(ANN, key, value)
    else:
        taken = checked_value(ANN, key, value)
        assert (taken, type(taken)) == (stored, type(stored))


def test_an_address_has_one_quota() -> None:
    address = QuotaEntity(ip="::1")
    assert checked_value(address, "connection_creation_rate", 5.0) == 5
    for key, value in [("connection_creation_rate", 2.0**31), ("producer_byte_rate", 5.0)]:
        with pytest.raises(QuotaError):
            checked_value(address, key, value)


@pytest.mark.parametrize(
    ("key", "text", "limit"),
    [
        ("producer_byte_rate", "1024", 1024),
        ("producer_byte_rate", str(2**63 - 1), 2.0**63),
        ("producer_byte_rate", "-5", 0),
        ("request_percentage", "12.5", 12.5),
        ("request_percentage", "1.0E-4", 1e-4),
        ("request_percentage", "Infinity", math.inf),
        ("producer_byte_rate", "1.5", None),
        ("producer_byte_rate", "1_000", None),
        ("producer_byte_rate", str(2**64), None),
        ("request_percentage", "NaN", None),
        ("request_percentage", "", None),
    ],
)
def test_a_node_holds_a_limit_or_nothing_that_can_be_used(
    key: str, text: str, limit: float | None
) -> None:
    if limit is None:
        with pytest.raises(QuotaError, match=key):
            limit_in(key, text)
    else:
        assert limit_in(key, text) == limit
