"""Quotas of users, client ids and addresses, as a running cluster has them: described and changed
(KIP-546).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.client.quota_words import TYPES, Names
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kbroker.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_EXACT, _DEFAULT, _ANY = range(3)


class EntityQuotas(NamedTuple):
    """An entity, and its quotas by Kafka's names."""

    entity: Names
    values: Mapping[str, float]


def described_quotas(
    links: ClusterLinks, entity: Names, *, is_whole: bool = False, any_of: Iterable[str] = ()
) -> list[EntityQuotas]:
    """Return the quotas of entities that have these components and some of these types, and of none
    that has others too if `is_whole`; sorted by names. Raises OSError, and KafkaError if that is
    refused.
    """
    wanted = [(k, _DEFAULT if name is None else _EXACT, name) for k, name in entity.items()]
    wanted += [(kind, _ANY, None) for kind in any_of]
    answer: DescribeClientQuotasResponse = links.ask_any(
        DescribeClientQuotasRequest(
            components=[
                DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=how, match=n)
                for kind, how, n in wanted
            ],
            strict=is_whole,
        )
    )
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    found = [
        EntityQuotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=_place)


def altered_quotas(
    links: ClusterLinks,
    changes: Iterable[tuple[Names, Mapping[str, float | None]]],
    *,
    only_checks: bool = False,
) -> list[KafkaError | None]:
    """Set quotas of entities, None removes one; returns for each entity None, or why not. Raises as
    `ask_controller`.
    """
    wanted = list(changes)
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    AlterClientQuotasRequest.OpData(
                        key=key, value=0.0 if value is None else value, remove=value is None
                    )
                    for key, value in values.items()
                ],
            )
            for entity, values in wanted
        ],
        validate_only=only_checks,
    )
    answer: AlterClientQuotasResponse = ask_controller(links, request)
    outcomes = {
        frozenset((part.entity_type, part.entity_name) for part in entry.entity): entry
        for entry in answer.entries
    }
    return [_refusal(outcomes[frozenset(entity.items())]) for entity, _ in wanted]


def _refusal(entry: AlterClientQuotasResponse.EntryData) -> KafkaError | None:
    if entry.error_code == ErrorCode.NONE:
        return None
    return KafkaError(ErrorCode(entry.error_code), entry.error_message)


def _place(quotas: EntityQuotas) -> tuple[object, ...]:
    """Users first, then client ids and addresses; defaults after names."""
    entity = quotas.entity
    return tuple(
        (kind not in entity, entity.get(kind) is None, entity.get(kind) or "") for kind in TYPES
    )
