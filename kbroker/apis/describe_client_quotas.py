"""DescribeClientQuotas (key 48), versions 0 and 1: which quotas are stored (KIP-546).

v1: flexible. The answer has what is stored, with the sentences of Kafka 3.9. A value that is not a
number is left out, and so are settings that are not quotas.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kbroker.quotas.quota_entity import ADDRESS_KEYS, CLIENT_ID, CLIENT_KEYS, IP, USER
from kbroker.turns import ENTRIES, in_turns
from kbroker.zk.nodes.entity_configs import Names
from kbroker.zk.zk_paths import CLIENT_CONFIGS, IP_CONFIGS, USER_CONFIGS

Component = DescribeClientQuotasRequest.ComponentData
Entry = DescribeClientQuotasResponse.EntryData
Entity = Mapping[str, str | None]  # names by type, None is the default
Stored = Mapping[Names, Mapping[str, str]]

EXACT, DEFAULT, SPECIFIED = range(3)
_WORDS = {USER: "user", CLIENT_ID: "client", IP: "ip"}
_STORED = {
    (USER_CONFIGS,): (USER,),
    (CLIENT_CONFIGS,): (CLIENT_ID,),
    (USER_CONFIGS, CLIENT_CONFIGS): (USER, CLIENT_ID),
    (IP_CONFIGS,): (IP,),
}


@api(DescribeClientQuotasRequest, ForRequest(AclOperation.DESCRIBE_CONFIGS, the_cluster))
async def handle(
    ctx: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Describe the entities that have all the components asked for; with `strict`, no others."""
    wanted = _wanted(request.components)
    entries: list[Entry] = []
    for kinds, types in _STORED.items():
        if not wanted.keys() <= set(types) or (request.strict and len(wanted) < len(types)):
            continue
        stored = await ctx.services.configs.entities(*kinds)
        await in_turns(_described(entries, types, stored, wanted))
    response = DescribeClientQuotasResponse(entries=entries)
    response.is_large = len(entries) > ENTRIES
    return response


def _described(
    entries: list[Entry], types: tuple[str, ...], stored: Stored, wanted: Mapping[str, Component]
) -> Iterator[None]:
    keys = ADDRESS_KEYS if IP in types else CLIENT_KEYS
    for names, overrides in stored.items():
        entity = dict(zip(types, names, strict=True))
        if all(_fits(entity[kind], wanted[kind]) for kind in wanted):
            values = _quotas(keys, overrides)
            if values:
                entries.append(_entry(entity, values))
        yield


def _wanted(components: list[Component]) -> dict[str, Component]:
    """The components by type. Raises KafkaError for what cannot be asked."""
    wanted: dict[str, Component] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Unexpected empty filter component entity type")
        if kind not in _WORDS:
            message = f"Custom entity type '{kind}' not supported"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        if kind in wanted:
            raise _invalid(f"Duplicate {_WORDS[kind]} filter component entity type")
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise _invalid(f"Unknown match type {component.match_type}")
        if component.match_type == EXACT and component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component."
        )
    return wanted


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _fits(name: str | None, component: Component) -> bool:
    if component.match_type == SPECIFIED:
        return True
    return name == (component.match if component.match_type == EXACT else None)


def _quotas(keys: Container[str], overrides: Mapping[str, str]) -> dict[str, float]:
    return {
        key: value
        for key, text in overrides.items()
        if key in keys and (value := _number(text)) is not None
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _entry(entity: Entity, values: Mapping[str, float]) -> Entry:
    return Entry(
        entity=[
            DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        values=[
            DescribeClientQuotasResponse.ValueData(key=key, value=value)
            for key, value in values.items()
        ],
    )
