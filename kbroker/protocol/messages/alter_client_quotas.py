"""AlterClientQuotas: set or remove quotas of users, clients and addresses (KIP-546).

v1: flexible.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    """The changes; with validate_only none is made."""

    class EntityData(Struct):
        """One component of an entity; a null name is the default."""

        entity_type: str = wire("string", default="")
        entity_name: str | None = wire("string", nullable="0+", default="")

    class OpData(Struct):
        key: str = wire("string", default="")
        value: float = wire("float64", default=0.0)
        remove: bool = wire("bool", default=False)

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = wire("[]EntityData", default=[])
        ops: list[AlterClientQuotasRequest.OpData] = wire("[]OpData", default=[])

    entries: list[AlterClientQuotasRequest.EntryData] = wire("[]EntryData", default=[])
    validate_only: bool = wire("bool", default=False)

    def error_response(
        self, code: ErrorCode, version: int, message: str | None = None, throttle_time_ms: int = 0
    ) -> Message:
        """Answer each entity by its components."""
        response = super().error_response(code, version, message, throttle_time_ms)
        assert isinstance(response, AlterClientQuotasResponse)
        for entry, answer in zip(self.entries, response.entries, strict=True):
            answer.entity = [
                AlterClientQuotasResponse.EntityData(
                    entity_type=each.entity_type, entity_name=each.entity_name
                )
                for each in entry.entity
            ]
        return response


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    class EntityData(Struct):
        """One component of an entity; a null name is the default."""

        entity_type: str = wire("string", default="")
        entity_name: str | None = wire("string", nullable="0+", default="")

    class EntryData(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        entity: list[AlterClientQuotasResponse.EntityData] = wire("[]EntityData", default=[])

    throttle_time_ms: int = wire("int32", default=0)
    entries: list[AlterClientQuotasResponse.EntryData] = wire("[]EntryData", default=[])
