from __future__ import annotations

import pytest

from kbroker.config.config_checks import parse_per_ip_overrides
from kbroker.errors import ConfigError
from kbroker.network.connection_quotas import ConnectionQuotas


def test_an_address_gets_no_more_than_its_number() -> None:
    quotas = ConnectionQuotas(10, 2)
    assert [quotas.increment("10.0.0.1", "A") for _ in range(3)] == [True, True, False]
    assert quotas.increment("10.0.0.2", "A")
    assert (quotas.total, quotas.rejected.value, quotas.count("10.0.0.1")) == (3, 1, 2)


def test_a_closed_connection_makes_room_for_the_next() -> None:
    quotas = ConnectionQuotas(10, 1)
    quotas.increment("10.0.0.1", "A")
    quotas.decrement("10.0.0.1", "A")
    assert quotas.increment("10.0.0.1", "A")
    assert quotas.total == 1


def test_an_override_holds_for_its_address_alone() -> None:
    quotas = ConnectionQuotas(10, 1, {"10.0.0.1": 0, "10.0.0.2": 2})
    assert not quotas.increment("10.0.0.1", "A")
    assert [quotas.increment("10.0.0.2", "A") for _ in range(3)] == [True, True, False]


def test_quotas_are_full_at_max_connections() -> None:
    quotas = ConnectionQuotas(1, 5)
    assert not quotas.is_full("A")
    quotas.increment("10.0.0.1", "A")
    assert quotas.is_full("A")


@pytest.mark.parametrize("text", ["10.0.0.1", ":5", "10.0.0.1:-1", "10.0.0.1:many"])
def test_overrides_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        parse_per_ip_overrides(text)


def test_overrides_are_read_with_spaces_and_ipv6() -> None:
    assert parse_per_ip_overrides("10.0.0.1:5, ::1:7") == {"10.0.0.1": 5, "::1": 7}


def test_a_listener_has_a_limit_of_its_own_and_that_of_brokers_waits_for_no_other() -> None:
    quotas = ConnectionQuotas(10, 10)
    quotas.put_limits(3, {"A": 2, "B": 2}, spared="B")
    for listener in ("A", "A", "B"):
        assert not quotas.is_full(listener)
        assert quotas.increment("10.0.0.1", listener)

    assert [quotas.is_full(each) for each in ("A", "B", "C")] == [True, False, True]
    quotas.increment("10.0.0.1", "B")
    quotas.decrement("10.0.0.1", "A")
    quotas.decrement("10.0.0.1", "A")
    assert [quotas.is_full(each) for each in ("A", "B", "C")] == [False, True, False]
