"""Which clients the log names, and when."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kbroker.network.unserved_clients import NAMED_MAX, UnservedClients
from kbroker.unserved import SHARE_GROUPS, TRANSACTIONS, Unserved
from tests.fakes.recording_replier import local_connection

HERE = replace(
    local_connection(), client_software_name="librdkafka", client_software_version="2.16.0"
)
TEA = Unserved("tea", "ask for coffee")


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

    unserved.name(HERE, "orders", TRANSACTIONS)
    unserved.name(HERE, "orders", SHARE_GROUPS)
    unserved.name(HERE, "billing", TRANSACTIONS)
    unserved.name(replace(HERE, client_software_version="2.17.0"), "orders", TRANSACTIONS)
    unserved.name(replace(HERE, peer_host="10.0.0.7"), "orders", TRANSACTIONS)

    assert len(set(warnings(caplog))) == 5


def test_a_name_cannot_break_or_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    UnservedClients().name(HERE, "a\nERROR all is lost" + "x" * 30_000, TEA)

    (told,) = warnings(caplog)
    assert "\n" not in told
    assert len(told) < 300


def test_who_asked_longest_ago_is_forgotten_first(caplog: pytest.LogCaptureFixture) -> None:
    unserved = UnservedClients()
    for number in range(NAMED_MAX):
        unserved.name(HERE, f"c{number}", TEA)
    unserved.name(HERE, "c0", TEA)
    unserved.name(HERE, "one more", TEA)
    caplog.clear()

    unserved.name(HERE, "c0", TEA)
    assert warnings(caplog) == []
    unserved.name(HERE, "c1", TEA)
    assert len(warnings(caplog)) == 1
