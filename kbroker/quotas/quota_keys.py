"""The settings that are quotas, and the kinds of limits that clients have. Whoever only asks
whether there is a limit needs no more of this room.
"""

from __future__ import annotations

from enum import Enum

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"


class ClientQuotaType(Enum):
    """The kinds of limits that clients have, with the names of their settings."""

    PRODUCE = PRODUCER_BYTE_RATE
    FETCH = CONSUMER_BYTE_RATE
    REQUEST = REQUEST_PERCENTAGE
    CONTROLLER_MUTATION = CONTROLLER_MUTATION_RATE


QUOTA_KEYS = frozenset({*(kind.value for kind in ClientQuotaType), CONNECTION_CREATION_RATE})
