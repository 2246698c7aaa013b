"""Logs the names of clients that ask for something that this broker does not serve.

Law: a client is named once for each thing it asks for, however often it connects and asks;
repetitions are counted at DEBUG. A client is its address without the port, its software and its id.
The log and the memory are bounded whatever clients call themselves: per address, only so many are
named for one thing and for all things, the others are counted. Beyond a bound the oldest entries
are forgotten.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TypeVar

from kbroker.protocol.request import ConnectionInfo, shown_client
from kbroker.unserved import Unserved

_Key = TypeVar("_Key")

_log = logging.getLogger(__name__)

NAMED_MAX = 1_000
NAMED_FOR_ONE_THING_MAX = 20  # per address: more clients on one machine are of one kind
NAMED_OF_AN_ADDRESS_MAX = 200  # for all things: API keys and versions are what clients send
ADDRESSES_MAX = 2_000  # and addresses with a thing
COUNTED_EACH = 10_000  # requests of the unnamed, from one line of the log to the next
_ANYTHING = "what this broker does not serve"


class UnservedClients:
    """The clients that asked for something unserved, and for what."""

    __slots__ = ("_at_address", "_times")

    def __init__(self) -> None:
        # In both, the last to ask stands last. None stands for all things.
        self._times: OrderedDict[tuple[str, Unserved], int] = OrderedDict()
        self._at_address: OrderedDict[tuple[str, Unserved | None], int] = OrderedDict()

    @property
    def kept(self) -> tuple[int, int]:
        """How many clients, and how many addresses, are remembered."""
        return len(self._times), len(self._at_address)

    def name(self, connection: ConnectionInfo, client_id: str | None, what: Unserved) -> None:
        """Log that a client asks for `what`, as a warning the first time."""
        client = shown_client(connection, client_id, connection.peer_host)
        times = self._times.get((client, what), 0) + 1
        if times == 1 and not self._may_name(connection.peer_host, what):
            return
        _put_last(self._times, (client, what), times, NAMED_MAX)
        if times > 1:
            _log.debug("%s asked for %s %d times", client, what.what, times)
            return
        _log.warning(
            "%s asks for %s, which this broker does not serve: %s", client, what.what, what.advice
        )

    def _may_name(self, host: str, what: Unserved) -> bool:
        """Whether one more client of this address is named; if not, it is counted."""
        thing = f"{what.what}, which this broker does not serve"
        if self._at_address.get((host, None), 0) < NAMED_OF_AN_ADDRESS_MAX and not self._has_room(
            (host, what), NAMED_FOR_ONE_THING_MAX, thing
        ):
            return False
        return self._has_room((host, None), NAMED_OF_AN_ADDRESS_MAX, _ANYTHING)

    def _has_room(self, key: tuple[str, Unserved | None], most: int, thing: str) -> bool:
        asked = self._at_address.get(key, 0) + 1
        _put_last(self._at_address, key, asked, ADDRESSES_MAX)
        unnamed = asked - most
        if unnamed == 1:
            _log.warning(
                "further clients at %s are not named, %d were: they ask for %s", key[0], most, thing
            )
        elif unnamed > 0 and unnamed % COUNTED_EACH == 0:
            _log.warning(
                "clients at %s that are not named asked %s times for %s",
                key[0], f"{unnamed:,}", thing,
            )  # fmt: skip
        return unnamed <= 0


def _put_last(kept: OrderedDict[_Key, int], key: _Key, value: int, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
