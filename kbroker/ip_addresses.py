"""IP addresses as texts: those that stand for all of a machine, and the ways to write one."""

from __future__ import annotations

import socket
from functools import lru_cache
from struct import Struct

EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  recognised, not listened on
"""Hosts of listeners on all addresses, to which nobody can connect."""

_LOOPBACKS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  not listened on
_MAPPED = "::ffff:"
_ADDRESSES_KEPT = 1_000
_IPV6 = Struct(">8H")
_IPV4_WITHIN = bytes(10) + b"\xff\xff"


def reached_here(host: str) -> str:
    """The host by which this machine reaches a listener.

    >>> reached_here("0.0.0.0"), reached_here("kafka1")
    ('127.0.0.1', 'kafka1')
    """
    return _LOOPBACKS.get(host, host)


def unmapped(host: str) -> str:
    """An address as the system says it of a socket for both families, without what says that it is
    one of IPv4.

    >>> unmapped("::ffff:10.0.0.1"), unmapped("::1")
    ('10.0.0.1', '::1')
    """
    return host.removeprefix(_MAPPED)


@lru_cache(_ADDRESSES_KEPT)
def address_in_rules(host: str) -> str:
    """An address as Java writes it, and rules have it: IPv6 in full, IPv4 within it alone.

    >>> address_in_rules("::1"), address_in_rules("::ffff:10.0.0.1")
    ('0:0:0:0:0:0:0:1', '10.0.0.1')
    """
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    packed = socket.inet_pton(socket.AF_INET6, address)
    if packed.startswith(_IPV4_WITHIN):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return ":".join(f"{part:x}" for part in _IPV6.unpack(packed)) + percent + zone
