"""Answers under clients' quotas, and for how long their connections are muted."""

from __future__ import annotations

from typing import Any

from kbroker.apis.client_quotas import Usage
from kbroker.apis.served_api import Served
from kbroker.peers.cluster_action import Sender
from kbroker.protocol.part_encoder import encode_runs
from kbroker.protocol.request import Piece, Request, Response
from kbroker.protocol.schema import Message


def throttle_ms(served: Served, request: Request, response_bytes: int) -> int:
    """Count a request and its answer against the client's quotas; returns for how many milliseconds
    its connection is muted. Brokers never throttle each other.
    """
    connection = request.connection
    quotas = served.quotas
    if quotas is None or connection.is_forwarded or served.sender is not Sender.ANYBODY:
        return 0
    usage = Usage(
        principal=connection.principal,
        client_id=request.header.client_id,
        api_key=request.header.api_key,
        request_bytes=request.size_bytes,
        response_bytes=response_bytes,
        now_ms=served.services.clock.monotonic_ms(),
    )
    return quotas.throttle_ms(usage)


def throttled(
    served: Served,
    request: Request,
    response: Any,
    pieces: list[Piece],
    message: Message | None,
) -> Response:
    """Return the answer, which says for how long its connection is muted. Brokers never
    throttle each other; a client is throttled by the broker that it asked.
    """
    if served.quotas is None or (
        served.exempt is not None and message is not None and served.exempt(message)
    ):
        return Response(pieces)
    delay_ms = throttle_ms(served, request, sum(map(len, pieces)))
    if not delay_ms:
        return Response(pieces)
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, delay_ms)
        pieces = encode_runs(
            response, served.version, served.header.pack(request.header.correlation_id)
        )
    return Response(pieces, delay_ms)
