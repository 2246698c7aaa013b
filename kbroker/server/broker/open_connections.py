"""The open connections of a broker, for those who ask who is connected."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.apis.lanes import Lanes
from kbroker.apis.request_tracer import asker_of
from kbroker.network.processor import Processor
from kbroker.protocol.api_keys import ApiKey
from kbroker.tracing.open_connection import OpenConnection


def open_connections(processor: Processor) -> Iterator[OpenConnection]:
    """Yield the connections; those that are closed meanwhile are left out."""
    for channel in list(processor.channels):
        idle_ms = processor.idle_ms(channel)
        if idle_ms is None:
            continue
        connection = channel.connection
        lanes = connection.short_way
        apis = lanes.apis if isinstance(lanes, Lanes) else {}
        yield OpenConnection(
            asker=asker_of(connection.client_id, connection),
            apis={ApiKey(key).api_name: version for key, version in sorted(apis.items())},
            requests=channel.requests,
            bytes_in=channel.bytes_in,
            bytes_out=channel.writer.bytes_out,
            idle_ms=int(idle_ms),
        )
