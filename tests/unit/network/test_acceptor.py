"""Where an acceptor cannot listen, its sentence says what to do instead."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.errors import ConfigError, Trouble
from kbroker.model import EndPoint
from kbroker.network import acceptor as acceptors
from kbroker.network.acceptor import Acceptor
from kbroker.network.connection_quotas import ConnectionQuotas


@pytest.mark.parametrize(
    ("error", "hint", "trouble"),
    [
        (OSError(errno.EADDRINUSE, "In use"), "stop what listens there", Trouble.PORT_IN_USE),
        (OSError(errno.EADDRNOTAVAIL, "Not here"), "choose an address of this machine", None),
        (
            socket.gaierror(socket.EAI_NONAME, "Not known"),
            "choose an address of this machine",
            None,
        ),
        (OSError(errno.EACCES, "No"), "No$", None),
    ],
)
def test_it_says_what_to_choose_instead(
    monkeypatch: pytest.MonkeyPatch, error: OSError, hint: str, trouble: Trouble | None
) -> None:
    def resolve(*_arguments: Any, **_options: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    unused: Any = None
    end_point = EndPoint(listener_name="PLAINTEXT", host="here", port=9092)
    acceptor = Acceptor(end_point, unused, unused, (-1, -1), 1, unused)

    with pytest.raises(ConfigError, match=hint) as caught:
        acceptor.bind()

    assert caught.value.trouble == trouble


@pytest.mark.parametrize(("port", "is_low"), [(80, True), (1023, True), (1024, False), (0, False)])
def test_it_names_higher_ports_only_where_a_low_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, port: int, is_low: bool
) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise OSError(errno.EACCES, "No")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    unused: Any = None
    end_point = EndPoint(listener_name="PLAINTEXT", host="here", port=port)
    acceptor = Acceptor(end_point, unused, unused, (-1, -1), 1, unused)

    with pytest.raises(ConfigError) as caught:
        acceptor.bind()

    assert ("choose a port above 1023" in str(caught.value)) is is_low


async def test_a_connection_for_which_there_are_no_parts_is_closed_and_not_counted() -> None:
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))

    def make_wire(*_: Any) -> Any:
        raise ConfigError("a bug")

    unused: Any = None
    parts: Any = SimpleNamespace(make_wire=make_wire)
    quotas = ConnectionQuotas(10, 10)
    end_point = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=0)
    acceptor = Acceptor(end_point, unused, quotas, (-1, -1), 1, parts)
    port = acceptor.bind().port
    acceptor.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    assert await reader.read() == b"", "it has ended"
    assert quotas.total == 0
    writer.close()
    acceptor.close()
    gc.collect()
    assert [str(each["exception"]) for each in said] == ["a bug"]


@pytest.mark.parametrize(
    ("protocol", "strangers", "accepted"),
    [
        ("SASL_SSL", acceptors.CROWD, 2),
        ("SASL_SSL", acceptors.CROWD - 1, 5),
        ("PLAINTEXT", acceptors.CROWD, 5),
    ],
)
async def test_in_a_crowd_of_strangers_it_rests_after_two(
    monkeypatch: pytest.MonkeyPatch, protocol: str, strangers: int, accepted: int
) -> None:
    monkeypatch.setattr(acceptors, "CROWD_PAUSE_S", 3_600)
    processor: Any = SimpleNamespace(strangers=range(strangers))
    end_point = EndPoint(listener_name="HERE", host="127.0.0.1", port=0, security_protocol=protocol)
    # An address has no more than none: each is closed when it was accepted.
    quotas, unused = ConnectionQuotas(10, 0), None
    acceptor = Acceptor(end_point, processor, quotas, (-1, -1), 1, cast(Any, unused))
    port = acceptor.bind().port
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]

    acceptor.start()
    for _ in range(20):
        await asyncio.sleep(0)

    assert quotas.rejected.value == accepted
    assert acceptor.blocked_ns.value == 0, "as nothing has run out"
    acceptor.close()
    for client in clients:
        client.close()
