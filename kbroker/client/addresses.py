"""The addresses a person gave: read, and tried."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from kbroker.client.client_error import ClientError
from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble

OPTION = "--bootstrap"
_CONNECT_TIMEOUT_S = 5
_MAX_PORT = 65_535


def check_reachable(bootstrap: str, name: str = OPTION) -> None:
    """Fail at once where nobody listens: the client library would try again for seconds. `name` is
    where the address was given.
    """
    for host, port in addresses_of(bootstrap, name):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            reason = error.strerror or str(error)
        except UnicodeError:
            reason = f"'{host}' is not a host name"
    raise cannot_connect(bootstrap, reason, name)


def addresses_of(bootstrap: str, name: str = OPTION) -> Iterator[tuple[str, int]]:
    """Hosts and ports of `HOST:PORT[,HOST:PORT ...]`; ClientError at the first that is none."""
    for address in bootstrap.split(","):
        host, separator, port = address.strip().rpartition(":")
        is_port = port.isascii() and port.isdecimal() and int(port) <= _MAX_PORT
        if not separator or "/" in host or not is_port:
            raise ClientError(f"{name} '{address}' is not HOST:PORT", ExitCode.USAGE)
        yield host.strip("[]"), int(port)


def cannot_connect(bootstrap: str, reason: str, name: str = OPTION) -> ClientError:
    """Return the error of a command that no broker answers."""
    return ClientError(
        f"cannot connect to {bootstrap}: {reason} "
        f"(is a broker running? start one with `kbroker`, or give {name} HOST:PORT)",
        ExitCode.CANNOT_CONNECT,
        Trouble.CANNOT_CONNECT,
    )
