"""DescribeClientQuotas: the quotas of users, clients and addresses (KIP-546).

v1: flexible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    """Filters of quotas; with strict, entities that have other components are left out."""

    error_values: ClassVar[Mapping[str, Any]] = {"entries": None}

    class ComponentData(Struct):
        """One component and how it must match: 0 exactly `match`, 1 the default, 2 any name."""

        entity_type: str = wire("string", default="")
        match_type: int = wire("int8", default=0)
        match: str | None = wire("string", nullable="0+", default="")

    components: list[DescribeClientQuotasRequest.ComponentData] = wire(
        "[]ComponentData", default=[]
    )
    strict: bool = wire("bool", default=False)


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """The quotas that match; null entries if the request failed."""

    class EntityData(Struct):
        """One component of an entity; a null name is the default."""

        entity_type: str = wire("string", default="")
        entity_name: str | None = wire("string", nullable="0+", default="")

    class ValueData(Struct):
        key: str = wire("string", default="")
        value: float = wire("float64", default=0.0)

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = wire("[]EntityData", default=[])
        values: list[DescribeClientQuotasResponse.ValueData] = wire("[]ValueData", default=[])

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    entries: list[DescribeClientQuotasResponse.EntryData] | None = wire(
        "[]EntryData", nullable="0+", default=[]
    )
