"""FindCoordinator: which broker coordinates a group or a transactional id (KIP-98, KIP-699).

v1: request gains key_type; response gains throttle_time_ms, error_message.
v2: Same bytes as v1.
v3: flexible.
v4: request gains coordinator_keys; request drops key; response gains coordinators; response drops
    error_code, error_message, node_id, host, port.
v5: Same bytes as v4; the code TRANSACTION_ABORTABLE.
v6: Same bytes as v5; share groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    """Groups (key type 0), transactional ids (1), share partitions (2): whose coordinator?"""

    error_values: ClassVar[Mapping[str, Any]] = {"node_id": -1, "port": -1}

    key: str = wire("string", "0-3", default="")
    key_type: int = wire("int8", "1+", default=0)
    coordinator_keys: list[str] = wire("[]string", "4+", default=[])


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    class Coordinator(Struct):
        key: str = wire("string", "4+", default="")
        node_id: int = wire("int32", "4+", default=0)
        host: str = wire("string", "4+", default="")
        port: int = wire("int32", "4+", default=0)
        error_code: int = wire("int16", "4+", default=0)
        error_message: str | None = wire("string", "4+", nullable="4+", default="")

    throttle_time_ms: int = wire("int32", "1+", default=0)
    error_code: int = wire("int16", "0-3", default=0)
    error_message: str | None = wire("string", "1-3", nullable="1-3", default="")
    node_id: int = wire("int32", "0-3", default=0)
    host: str = wire("string", "0-3", default="")
    port: int = wire("int32", "0-3", default=0)
    coordinators: list[FindCoordinatorResponse.Coordinator] = wire(
        "[]Coordinator", "4+", default=[]
    )
