"""Answers to Metadata that are kept until the cluster changes.

Law: whoever sends the same bytes in the same version, over the same listener and to the same
address of this broker, gets the same answer as long as the cluster is the same. This does not hold
for an answer with a refusal, as the log has each of them, nor under an authorizer or quotas: then
nothing is looked up here (`Served.known`).
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.large_answers import written
from kbroker.model import new_tuple
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.part_encoder import encode_runs
from kbroker.protocol.request import ConnectionInfo, Request
from kbroker.replication.kept_answers import LARGEST_BYTES, Asked

_LONGEST_REQUEST_BYTES = 64 * 1024  # thousands of topics; compared in 0.1 ms


class KeptMetadata:
    """The answers that `MetadataCache.answers` has (KnownAnswers)."""

    def find(self, services: Services, request: Request) -> bytes | None:
        """The answer to an equal request, if nothing has changed since."""
        if request.size_bytes > _LONGEST_REQUEST_BYTES:
            return None
        return services.metadata.answers.find(_as_sent(request))

    def last_change(self, services: Services) -> object:
        """A token of the last change of the cluster."""
        return services.metadata.answers.since

    def keep(self, services: Services, request: Request, answer: bytes, since: object) -> None:
        """Keep the answer to a request of many topics."""
        if request.size_bytes <= _LONGEST_REQUEST_BYTES:
            services.metadata.answers.keep(_as_sent(request), answer, since)


def keep(
    ctx: RequestContext, request: MetadataRequest, answer: bytes, since: object = None
) -> None:
    """Keep an answer that was begun after the change `since`; None: it was made just now."""
    if ctx.services.authorizer is not ALLOW_ALL or ctx.is_of_part:
        return
    # A request that is written in another way, or has more beyond its end, will not be found.
    asked = _asked(ctx.api_version, ctx.connection, encode(request, ctx.api_version))
    answers = ctx.services.metadata.answers
    answers.keep(asked, answer, since or answers.since)


async def written_and_kept(
    ctx: RequestContext,
    request: MetadataRequest,
    response: MetadataResponse,
    topics: Iterable[list[MetadataResponse.MetadataResponseTopic]],
    size_bytes: int,
) -> MetadataResponse:
    """Write a large answer that refuses nothing as `written` does, and keep it."""
    since = ctx.services.metadata.answers.since
    response = await written(ctx, response, "topics", topics, size_bytes)
    if size_bytes <= LARGEST_BYTES:
        pieces = encode_runs(response, ctx.api_version, b"")
        keep(ctx, request, b"".join(map(bytes, pieces)), since)  # type: ignore[arg-type]
    return response


def _as_sent(request: Request) -> Asked:
    body = bytes(request.frame[request.body_offset :])
    return _asked(request.header.api_version, request.connection, body)


def _asked(version: int, connection: ConnectionInfo, body: bytes) -> Asked:
    asked: Asked = new_tuple(
        Asked,
        (version, connection.listener_name, connection.local_host, connection.local_port, body),
    )
    return asked
