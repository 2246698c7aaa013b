"""Where an acceptor cannot listen, its sentence says what to do instead."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from kbroker.errors import ConfigError, Trouble
from kbroker.model import EndPoint
from kbroker.network.acceptor import Acceptor


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
        (OSError(errno.EACCES, "No"), "choose a port above 1023", None),
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
