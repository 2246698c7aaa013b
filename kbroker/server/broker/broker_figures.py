"""The figures of a broker that its console charts."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.console.web.views import BrokerFigures
from kbroker.counters import MetricName
from kbroker.server.broker.broker_parts import BrokerParts

_REQUESTS = MetricName("kbroker.apis", "KafkaApis", "Requests")
_BREATH = 256  # topics that are looked at in a step


def figures_of(parts: BrokerParts) -> Iterator[BrokerFigures | None]:
    """Add up the figures of now; called on the broker's loop, which others may use in between."""
    messages_in = bytes_in = bytes_out = 0
    for number, topic in enumerate(parts.data.replicas.hosted.topics.all(), 1):
        messages_in += topic.messages_in
        bytes_in += topic.bytes_in
        bytes_out += topic.bytes_out
        if number % _BREATH == 0:
            yield None
    yield BrokerFigures(
        messages_in=messages_in,
        bytes_in=bytes_in,
        bytes_out=bytes_out,
        requests=int(parts.counters.value(_REQUESTS)),
        connections=parts.socket_server.processor.connections,
    )
