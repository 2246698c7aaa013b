"""Answers to Metadata that are kept until the cluster changes.

Law: whoever sends the same bytes in the same version, over the same listener and to the same
address of this broker, gets the same answer as long as the cluster is the same. Under an authorizer
it is kept for a principal at an address, and for the rules of the time at which it was begun: once
any rule has changed, nobody finds it. This does not hold for an answer with a refusal, as the log
has each of them, nor while the audit log hears of grants, nor under an authorizer or an operator's
quotas that have to be asked each time (`Served.known`): then nothing is looked up or kept here.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.apis.authorizer import ALLOW_ALL, ruled
from kbroker.apis.context import Services
from kbroker.model import new_tuple
from kbroker.protocol.request import ConnectionInfo, Request
from kbroker.replication.kept_answers import Asked

_LONGEST_REQUEST_BYTES = 64 * 1024  # thousands of topics; compared in 0.1 ms


class _Since(NamedTuple):
    """The last change of the cluster before an answer was begun, and the rules of that time."""

    change: object
    rules: object


class KeptMetadata:
    """The answers that `MetadataCache.answers` has (KnownAnswers)."""

    def find(self, services: Services, request: Request) -> bytes | None:
        """The answer to an equal request, if nothing has changed since."""
        if request.size_bytes > _LONGEST_REQUEST_BYTES:
            return None
        if services.authorizer is ALLOW_ALL:
            return services.metadata.answers.find(_asked(request, None))
        rules = _rules(services, request.connection)
        return None if rules is None else services.metadata.answers.find(_asked(request, rules))

    def last_change(self, services: Services, request: Request) -> object:
        """A token of the last change of the cluster, and of what the client may see."""
        since, rules = services.metadata.answers.since, None
        if services.authorizer is not ALLOW_ALL:
            rules = _rules(services, request.connection)
            if rules is None:
                return None
        return _Since(since, rules)

    def keep(self, services: Services, request: Request, answer: bytes, since: object) -> None:
        """Keep an answer that was begun after the change `since`."""
        assert isinstance(since, _Since)
        if request.size_bytes > _LONGEST_REQUEST_BYTES:
            return
        if services.authorizer is ALLOW_ALL or since.rules == _rules(services, request.connection):
            asked = _asked(request, since.rules)
            services.metadata.answers.keep(asked, answer, since.change)


def _rules(services: Services, connection: ConnectionInfo) -> object:
    """The rules for a client, None if an answer for it is not to be kept."""
    if services.audit is not None and services.audit.hears_grants():
        return None
    authorizer = ruled(services.authorizer)
    return None if authorizer is None else authorizer.rules_for(connection)


def _asked(request: Request, rules: object) -> Asked:
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
            rules,
        ),
    )
    return asked
