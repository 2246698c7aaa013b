"""Which clients the log names, and when."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kbroker.network.unserved_clients import (
    ADDRESSES_MAX,
    COUNTED_EACH,
    NAMED_FOR_ONE_THING_MAX,
    NAMED_MAX,
    NAMED_OF_AN_ADDRESS_MAX,
    UnservedClients,
)
from kbroker.protocol.request import ConnectionInfo
from kbroker.unserved import CONSUMER_PROTOCOL, SHARE_GROUPS, Unserved, unknown_api
from tests.fakes.requests.recording_replier import local_connection

HERE = replace(
    local_connection(), client_software_name="librdkafka", client_software_version="2.16.0"
)
TEA = Unserved("tea", "ask for coffee")


def at(number: int) -> ConnectionInfo:
    """A connection from an address of its own."""
    return replace(HERE, peer_host=f"10.0.{number // 256}.{number % 256}")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_client_is_named_with_its_software_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    UnservedClients().name(HERE, "orders", TEA)

    assert warnings(caplog) == [
        "client 'orders' at 127.0.0.1 (librdkafka 2.16.0) asks for tea, which this broker does not "
        "serve: ask for coffee"
    ]


@pytest.mark.parametrize("client_id", [None, ""])
def test_a_client_without_a_name_is_told_by_its_address(
    client_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    UnservedClients().name(local_connection(), client_id, TEA)

    assert warnings(caplog)[0].startswith("a client at 127.0.0.1 asks for tea, ")


def test_what_a_client_repeats_over_other_connections_is_counted_in_the_debug_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    unserved = UnservedClients()

    for port in range(3):
        unserved.name(replace(HERE, peer_port=port), "orders", TEA)

    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "DEBUG"]
    assert caplog.messages[-1].endswith("asked for tea 3 times")


def test_who_differs_in_anything_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    unserved = UnservedClients()

    unserved.name(HERE, "orders", CONSUMER_PROTOCOL)
    unserved.name(HERE, "orders", SHARE_GROUPS)
    unserved.name(HERE, "billing", CONSUMER_PROTOCOL)
    unserved.name(replace(HERE, client_software_version="2.17.0"), "orders", CONSUMER_PROTOCOL)
    unserved.name(replace(HERE, peer_host="10.0.0.7"), "orders", CONSUMER_PROTOCOL)

    assert len(set(warnings(caplog))) == 5


def test_a_name_cannot_break_or_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    UnservedClients().name(HERE, "a\nERROR all is lost" + "x" * 30_000, TEA)

    (told,) = warnings(caplog)
    assert "\n" not in told
    assert len(told) < 300


def test_who_asked_longest_ago_is_forgotten_first(caplog: pytest.LogCaptureFixture) -> None:
    unserved = UnservedClients()
    for number in range(NAMED_MAX):
        unserved.name(at(number), "orders", TEA)
    unserved.name(at(0), "orders", TEA)
    unserved.name(at(NAMED_MAX), "orders", TEA)
    caplog.clear()

    unserved.name(at(0), "orders", TEA)
    assert warnings(caplog) == []
    unserved.name(at(1), "orders", TEA)
    assert len(warnings(caplog)) == 1


def test_of_an_address_only_some_clients_are_named_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unserved = UnservedClients()

    for number in range(NAMED_FOR_ONE_THING_MAX + 2 * COUNTED_EACH):
        unserved.name(HERE, f"c{number}", TEA)

    named, told = warnings(caplog)[:NAMED_FOR_ONE_THING_MAX], warnings(caplog)[-3:]
    assert len(warnings(caplog)) == NAMED_FOR_ONE_THING_MAX + 3
    assert all(line.startswith(f"client 'c{number}' at") for number, line in enumerate(named))
    assert told == [
        f"further clients at 127.0.0.1 are not named, {NAMED_FOR_ONE_THING_MAX} were: they ask for "
        "tea, which this broker does not serve",
        *(
            f"clients at 127.0.0.1 that are not named asked {times:,} times for tea, which this "
            "broker does not serve"
            for times in (COUNTED_EACH, 2 * COUNTED_EACH)
        ),
    ]


def test_who_comes_from_elsewhere_or_asks_for_something_else_is_named_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unserved = UnservedClients()
    for number in range(NAMED_FOR_ONE_THING_MAX + 5):
        unserved.name(HERE, f"c{number}", TEA)
    caplog.clear()

    unserved.name(at(7), "orders", TEA)
    unserved.name(HERE, "orders", SHARE_GROUPS)
    unserved.name(HERE, "c0", TEA)  # was named

    assert len(warnings(caplog)) == 2


def test_of_an_address_that_asks_for_ever_other_things_only_some_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unserved = UnservedClients()

    for number in range(COUNTED_EACH):
        unserved.name(HERE, "orders", unknown_api(number))
    unserved.name(at(7), "orders", TEA)

    assert len(warnings(caplog)) == NAMED_OF_AN_ADDRESS_MAX + 2
    assert warnings(caplog)[-2] == (
        f"further clients at 127.0.0.1 are not named, {NAMED_OF_AN_ADDRESS_MAX} were: they ask for "
        "what this broker does not serve"
    )
    assert warnings(caplog)[-1].startswith("client 'orders' at 10.0.0.7 ")


def test_what_is_kept_of_addresses_and_clients_is_bounded() -> None:
    unserved = UnservedClients()

    for number in range(3 * ADDRESSES_MAX):
        unserved.name(at(number), f"c{number}", TEA)
        unserved.name(HERE, f"c{number}", TEA)

    assert unserved.kept == (NAMED_MAX, ADDRESSES_MAX)
