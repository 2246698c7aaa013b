"""Requests of clients that this broker does not serve, and what their users can do about it.

Law: one sentence each, without its beginning, which differs: the log begins it with the client, an
answer with the broker.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.errors import ProtocolError


class Unserved(NamedTuple):
    """Something that is not served.

    >>> str(Unserved("tea", "ask for coffee"))
    'This broker does not serve tea: ask for coffee'
    """

    what: str
    advice: str

    def __str__(self) -> str:
        """As answers have it."""
        return f"This broker does not serve {self.what}: {self.advice}"


_LIST = "docs/compatibility.md lists the APIs that it serves"

CONSUMER_PROTOCOL = Unserved(
    "the consumer group protocol of KIP-848 as it is set",
    "set group.protocol=classic in the client; docs/groups.md says how to switch the new one on",
)
SHARE_GROUPS = Unserved("share groups", "read with a consumer group")
SASL = Unserved(
    "SASL logins on a listener without them",
    "set security.protocol=PLAINTEXT in the client (SSL with TLS), or use a listener with SASL",
)
TLS = Unserved(
    "TLS on a listener without it",
    "connect to another listener, or set security.protocol=PLAINTEXT in the client "
    "(SASL_PLAINTEXT with a login)",
)
HTTP = Unserved("HTTP", "connect with a Kafka client; `kbroker health` checks whether it answers")


def unserved_api(name: str) -> Unserved:
    """An API of Kafka's."""
    return Unserved(name, _LIST)


def unknown_api(key: int) -> Unserved:
    """An API that no Kafka has; the bytes may be no request at all."""
    return Unserved(f"API key {key}", f"connect with a Kafka client; {_LIST}")


def unserved_version(name: str, version: int, served: str) -> Unserved:
    """A version of an API; `served` are those that are."""
    return Unserved(
        f"{name} version {version}", f"it serves {served}; let the client ask with ApiVersions"
    )


class UnservedError(ProtocolError):
    """A request that cannot even be refused, as its answer has no shape here. The connection is
    closed, and its client named.
    """

    def __init__(self, what: Unserved, client_id: str | None = None) -> None:
        """`client_id` is the client's own name, if it could be read."""
        super().__init__(str(what))
        self.what = what
        self.client_id = client_id
