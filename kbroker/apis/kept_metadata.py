"""Answers to Metadata that are kept until the cluster changes.

Law: whoever sends the same bytes in the same version, over the same listener and to the same
address of this broker, gets the same answer as long as the cluster is the same. This does not hold
for an answer with a refusal, as the log has each of them, nor under an authorizer or quotas: then
nothing is looked up or kept here (`Served.known`).
"""

from __future__ import annotations

from kbroker.apis.context import Services
from kbroker.model import new_tuple
from kbroker.protocol.request import Request
from kbroker.replication.kept_answers import Asked

_LONGEST_REQUEST_BYTES = 64 * 1024  # thousands of topics; compared in 0.1 ms


class KeptMetadata:
    """The answers that `MetadataCache.answers` has (KnownAnswers)."""

    def find(self, services: Services, request: Request) -> bytes | None:
        """The answer to an equal request, if nothing has changed since."""
        if request.size_bytes > _LONGEST_REQUEST_BYTES:
            return None
        return services.metadata.answers.find(_asked(request))

    def last_change(self, services: Services) -> object:
        """A token of the last change of the cluster."""
        return services.metadata.answers.since

    def keep(self, services: Services, request: Request, answer: bytes, since: object) -> None:
        """Keep an answer that was begun after the change `since`."""
        if request.size_bytes <= _LONGEST_REQUEST_BYTES:
            services.metadata.answers.keep(_asked(request), answer, since)


def _asked(request: Request) -> Asked:
    connection = request.connection
    body = bytes(request.frame[request.body_offset :])
    asked: Asked = new_tuple(
        Asked,
        (
            request.header.api_version,
            connection.listener_name,
            connection.local_host,
            connection.local_port,
            body,
        ),
    )
    return asked
