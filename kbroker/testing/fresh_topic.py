"""A topic for one test: a name that no other test has, and the one request that creates it.

Spoken in Kafka's protocol, without a client library: a test's log and its libraries are its own.
"""

from __future__ import annotations

import re
import uuid
from contextlib import closing

from kbroker.client.broker_link import BrokerLink
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.testing.broker import BrokerError

_TIMEOUT_S = 30
_MOST_OF_A_NAME = 200  # characters; Kafka allows 249 in all
_DEFAULT = -1


def fresh_name(test: str) -> str:
    """Name of a topic or group that begins like the test's; another one at every call."""
    return f"{re.sub(r'[^a-zA-Z0-9._-]+', '-', test)[:_MOST_OF_A_NAME]}-{uuid.uuid4().hex[:12]}"


def create_topic(bootstrap: str, name: str) -> None:
    """Create it with the broker's defaults; returns when it can be used. Raises BrokerError."""
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT
            )
        ],
        timeout_ms=_TIMEOUT_S * 1000,
    )
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with closing(BrokerLink(host, int(port), _TIMEOUT_S)) as link:
        (answer,) = link.ask(request).topics
    if answer.error_code:
        reason = answer.error_message or ErrorCode(answer.error_code).name
        raise BrokerError(f"topic {name} was not created: {reason}")
