"""Connects to addresses as clients do: the name, each of its addresses, then as a client with the
given settings.
"""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from kbroker.cli.doctor.observations import Door
from kbroker.cli.doctor.probes.speech import listen
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.client.exit_code import ExitCode
from kbroker.errors import KafkaError
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import Message

_ANSWER_S, _CONNECT_S = 5.0, 3.0
_LISTEN_S = 2.0
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for a connection, an answer, and the words of an unknown program."""

    connect_s: float
    answer_s: float
    listen_s: float


def patience_of(settings: ConnectionSettings) -> Patience:
    """Return how long to wait: what the properties of the client say, if they do."""
    answer_s = settings.request_timeout_s or _ANSWER_S
    connect_s = settings.connect_timeout_s or min(_CONNECT_S, answer_s)
    return Patience(connect_s, answer_s, min(_LISTEN_S, answer_s))


class Inside:
    """A broker that has let us in. After a question without an answer it gets a new link, as the
    old one would give that answer to the next question.
    """

    def __init__(self, door: Door, settings: ConnectionSettings, link: BrokerLink) -> None:
        self._door = door
        self._settings = settings
        self._link: BrokerLink | None = link

    def ask(self, request: Message) -> Any:
        """Return the answer. Raises OSError if none comes, ClientError if we are not let in again,
        KafkaError if the broker does not know the request.
        """
        if self._link is None:
            answer_s = patience_of(self._settings).answer_s
            self._link = BrokerLink(self._door.host, self._door.port, answer_s, self._settings)
        try:
            return self._link.ask(request)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """End the connection, if there is one."""
        link, self._link = self._link, None
        if link is not None:
            link.close()


def knock(host: str, port: int, settings: ConnectionSettings) -> tuple[Door, BrokerLink | None]:
    """Return what an address is like, with an open link if a broker lets us in, which the caller
    closes. Raises ClientError for settings that no connection can be made with.
    """
    patience = patience_of(settings)
    door = _reached(Door(host=host, port=port), patience)
    if door.unknown is not None or not door.is_reached:
        return door, None
    link = None
    try:
        link = BrokerLink(host, port, patience.answer_s, settings)
        metadata = link.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    except (OSError, ClientError, KafkaError) as error:
        if link is not None:
            link.close()
        if isinstance(error, ClientError) and error.code == ExitCode.USAGE:
            raise  # files of certificates that cannot be read
        sentence = error.sentence if isinstance(error, ClientError) else str(error)
        heard, serves = listen(host, port, settings, patience.listen_s)
        return replace(door, refusal=sentence, heard=heard, serves=serves), None
    return replace(door, serves=dict(link.served), cluster_id=metadata.cluster_id), link


def _reached(door: Door, patience: Patience) -> Door:
    """Resolve the name and connect to each of its addresses once."""
    if not 0 < door.port <= _MAX_PORT:
        return replace(door, unknown=f"{door.port} is not a port")
    try:
        found = socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return replace(door, unknown=error.strerror or str(error))
    except UnicodeError:
        return replace(door, unknown="it is not a host name")
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    unreached = {}
    for address in addresses:
        try:
            with closing(
                socket.create_connection((address, door.port), timeout=patience.connect_s)
            ):
                pass
        except TimeoutError:
            unreached[address] = f"no answer within {patience.connect_s:g} s"
        except OSError as error:
            unreached[address] = error.strerror or str(error)
    return replace(door, addresses=addresses, unreached=unreached)
