"""BrokerViews: questions to the one broker that serves this console, about itself. A console of
another cluster is made without them, and its screens say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kbroker.client.client_error import ClientError
from kbroker.model import TopicPartition

if TYPE_CHECKING:  # which the first page does without
    from kbroker.tracing.open_connection import OpenConnection
    from kbroker.tracing.trace_filter import TraceFilter
    from kbroker.tracing.trace_reader import Taken

NO_VIEWS = (
    "not known here: a broker of kbroker tells it at its own HTTP address, and other brokers of "
    "Kafka do not tell it at all"
)


class LookRefusedError(ClientError):
    """A look at the broker that the user may not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The counters of a broker, which grow from its start on, and its connections of now. Messages
    and bytes are those of producers and consumers, without what brokers copy from each other.
    """

    messages_in: int
    bytes_in: int
    bytes_out: int
    requests: int
    connections: int


class Followed(Protocol):
    """Requests that are followed, until it is closed."""

    async def take(self) -> Taken:
        """Return the requests that were answered since the last look."""
        ...

    def close(self) -> None:
        """Let the broker go on unseen."""
        ...


class BrokerViews(Protocol):
    """Questions to the broker that serves this console. Each raises ClientError if the broker does
    not answer in time, and LookRefusedError if the user may not see this.
    """

    async def check(self) -> None:
        """Return if the user may see anything of it."""
        ...

    async def events(self, subject: str | TopicPartition | None) -> Sequence[dict[str, Any]]:
        """The last events of a group, a partition, or all (None), the oldest first, as rows of
        `kbroker.events.history`.
        """
        ...

    async def connections(self) -> Sequence[OpenConnection]:
        """The open connections of clients and other brokers, the oldest first."""
        ...

    async def figures(self) -> BrokerFigures:
        """The figures of now."""
        ...

    async def follow(self, wanted: TraceFilter) -> Followed:
        """Follow the requests that fit, from now on. Raises ClientError if too many do already."""
        ...
