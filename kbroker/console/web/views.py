"""BrokerViews: questions to the one broker that serves this console, about itself. A console of
another cluster is made without them, and its screens say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kbroker.model import TopicPartition

NO_VIEWS = (
    "not known here: a broker of kbroker tells it at its own HTTP address, and other brokers of "
    "Kafka do not tell it at all"
)


class BrokerViews(Protocol):
    """Questions to the broker that serves this console. Each raises ClientError if the broker does
    not answer in time.
    """

    async def events(self, subject: str | TopicPartition | None) -> Sequence[dict[str, Any]]:
        """The last events of a group, a partition, or all (None), the oldest first, as rows of
        `kbroker.events.history`.
        """
        ...
