from __future__ import annotations

import pytest

from kbroker.client.bootstrap import check_reachable
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.exit_code import ExitCode


@pytest.mark.parametrize("address", ["nowhere", "h:", "h:a", "h:65536", "h:99999", "h:\u0663", ""])
def test_what_is_no_address_is_said_in_the_words_of_who_gave_it(address: str) -> None:
    for name in ("--bootstrap", "the argument bootstrap"):
        with pytest.raises(ClientError, match="is not HOST:PORT") as refused:
            check_reachable(address, name)

        assert refused.value.code is ExitCode.USAGE
        assert refused.value.sentence.startswith(f"{name} '")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "a..b:9092"])
def test_who_cannot_be_reached_is_one_sentence_in_the_words_of_who_gave_it(address: str) -> None:
    with pytest.raises(ClientError, match=f"^cannot connect to {address}: ") as refused:
        check_reachable(address, "the argument bootstrap")

    assert refused.value.code is ExitCode.CANNOT_CONNECT
    assert "--" not in refused.value.sentence


@pytest.mark.parametrize("host", ["a..b", "x" * 300])
def test_what_a_broker_gives_as_a_host_and_is_none_cannot_be_reached(host: str) -> None:
    with pytest.raises(ConnectionRefusedError, match=f"^{host}:9092: "):
        BrokerLink(host, 9092, 1.0)
