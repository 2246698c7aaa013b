"""AlterClientQuotas (key 49), versions 0 and 1: sets and removes quotas of users, clients and
addresses (KIP-546).

v1: flexible. Any broker writes them to the tree, where each change expects what it has read, so
that none is lost to another. An entity that is named again is changed again, and answered once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kbroker.acl.acl import AclOperation
from kbroker.admin.client_quota_changes import Entity, alter_quotas
from kbroker.admin.host_names import AskedHosts
from kbroker.apis.authorization import ForRequest, in_words, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.errors import KafkaError
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kbroker.turns import in_turns

EntityData = AlterClientQuotasResponse.EntityData
Entry = AlterClientQuotasResponse.EntryData


@api(
    AlterClientQuotasRequest,
    ForRequest(AclOperation.ALTER_CONFIGS, the_cluster, text=in_words),
    parts=AS_A_WHOLE,
)
async def handle(
    ctx: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Change each entity by itself."""
    outcomes = await alter_quotas(
        ctx.services.configs.change_entity,
        AskedHosts().address_of,
        request.entries,
        is_stored=not request.validate_only,
    )
    response = AlterClientQuotasResponse()
    await in_turns(_filled(response, outcomes))
    return response


def _filled(
    response: AlterClientQuotasResponse, outcomes: Mapping[Entity, KafkaError | None]
) -> Iterator[None]:
    for entity, refusal in outcomes.items():
        entry = Entry(error_message=None)
        if refusal is not None:
            entry.error_code, entry.error_message = refusal.code, refusal.message
        response.entries.append(entry)
        for kind, name in entity:
            entry.entity.append(EntityData(entity_type=kind, entity_name=name))
            yield
        yield
