"""What commands say where a broker gives its clients an address that they cannot use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from socket import AF_INET, SOCK_STREAM, socket

import pytest

from compat_tests.commands.command_line import CANNOT_CONNECT, FINE, run
from compat_tests.conftest import BrokerProcess

MORE = "See kbroker help advertised-address"


@pytest.fixture
def bound() -> Iterator[socket]:
    """A port at which nobody answers."""
    with socket(AF_INET, SOCK_STREAM) as held:
        held.bind(("127.0.0.1", 0))
        yield held


def test_each_command_names_the_address_and_who_gives_it(
    own_broker: Callable[..., BrokerProcess], bound: socket
) -> None:
    port = bound.getsockname()[1]
    broker = own_broker()
    address = broker.bootstrap
    assert run("topic", "create", "t", bootstrap=address).code == FINE
    assert run("produce", "t", stdin="a\n", bootstrap=address).code == FINE
    broker.stop()
    broker.options = ("--override", f"kbroker.advertise=127.0.0.1:{port}")
    broker.start()
    address = broker.bootstrap
    told = (
        f"127.0.0.1:{port}: Connection refused ({address} gives clients this address of broker 0)"
    )

    done = run("topic", "create", "u", bootstrap=address)
    retry = (
        "if it was stopped or killed, another broker takes its place within "
        "zookeeper.session.timeout.ms: try again then"
    )
    lines = [f"Error: broker 0, the controller, cannot be reached: {told}; {retry}", MORE]
    assert (done.code, done.err.splitlines()) == (CANNOT_CONNECT, lines)
    for command in (("topic", "list"), ("topic", "describe", "t")):
        shown = run(*command, bootstrap=address)
        assert (shown.code, shown.err.splitlines()) == (
            FINE,
            [f"broker 0 gave no figures: {told}", MORE],
        )
    status = run("cluster", "status", bootstrap=address)
    assert status.lines()[1].split()[:3] == ["0", "silent", f"127.0.0.1:{port}"]
    assert f"broker 0 does not answer: {told}" in status.err
    assert f"clients are given 127.0.0.1:{port} (kbroker.advertise)" in broker.log_text()
