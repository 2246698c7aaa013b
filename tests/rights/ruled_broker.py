"""A whole broker with an authorizer, on a loop of virtual time and a directory in memory, which is
asked over wires in memory by whomever a test names.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from kbroker.acl.acl import AclPattern, Acls
from kbroker.apis.context import Services
from kbroker.apis.registry import registered
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.schema import Struct, field_specs, response_class
from tests.fakes.requests.error_codes import codes_in
from tests.faults.short_way_broker import HuntedBroker, HuntedConnection

ANONYMOUS, ADMIN = "User:ANONYMOUS", "User:admin"
ADDRESS = "127.0.0.1"
NOBODYS_ID = UUID(int=4711)
_CORRELATION_ID = 7
_LOOKS, _LOOK_S = 400, 0.05  # of virtual time
_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": ADMIN,
    "default.replication.factor": "3",  # nothing is created by the way
    "log.retention.ms": "-1",
    "delegation.token.secret.key": "secret",
}


class IdOf(str):
    """Stands for the id of a topic of this name, whatever it is."""

    __slots__ = ()


class RuledBroker(HuntedBroker):
    """Names its clients as it is told to."""

    def __init__(self, directory: Path, **settings: str) -> None:
        super().__init__(directory, 1, takes_short_way=True, **_SETTINGS, **settings)
        self._clients: dict[str, HuntedConnection] = {}
        self._ruled: list[AclPattern] = []

    def _services(self, *, denies: bool, throttles: bool) -> Services:
        services: Services = self.process.parts.services
        return services

    async def fill(self) -> None:
        """Make the topic, the group and the transactional id that tests speak of."""
        await asyncio.sleep(2)
        await self.create("orders")
        for kind, name in ((0, "workers"), (1, "move")):
            for _ in range(_LOOKS):
                found = await self.ask(ADMIN, 10, 1, {"key": name, "key_type": kind})
                if not found.error_code:
                    break
                await asyncio.sleep(1)
        await self.commit("workers", "orders")
        await self.begin("move")
        producer = await self.begin("busy")
        begun = {
            "transactional_id": "busy",
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "topics": [{"name": "orders", "partitions": [0]}],
        }
        answer = await self.ask(ADMIN, 24, 4, {"transactions": [begun]})
        assert codes_in(answer) == {0}, answer
        token = await self.ask(ADMIN, 38, 0, {"max_lifetime_ms": -1}, has_login=True)
        assert token.error_code == 0, token

    async def begin(self, transactional_id: str) -> tuple[int, int]:
        """Have a producer with this id; returns its own id and epoch."""
        values = {"transactional_id": transactional_id, "transaction_timeout_ms": 900_000}
        answer = await self.ask(ADMIN, 22, 4, values)
        assert answer.error_code == 0, answer
        return answer.producer_id, answer.producer_epoch

    async def create(self, name: str) -> None:
        """Make a topic, unless there is one."""
        if name in self.process.metadata.topics():
            return
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        answer = await self.ask(ADMIN, 19, 5, {"topics": [topic], "timeout_ms": 10_000})
        assert answer.topics[0].error_code == 0, answer

    async def commit(self, group: str, topic: str) -> None:
        """Let a group have an offset."""
        at = [{"partition_index": 0, "committed_offset": 0}]
        values = {"group_id": group, "topics": [{"name": topic, "partitions": at}]}
        answer = await self.ask(ADMIN, 8, 7, values)
        assert answer.topics[0].partitions[0].error_code == 0, answer

    def rule(self, rules: Mapping[AclPattern, Acls]) -> None:
        """Have these rules, and no others."""
        authorizer = self.process.parts.authorizer
        assert authorizer is not None
        authorizer.rules.replace(dict.fromkeys(self._ruled, ()) | dict(rules))
        self._ruled = list(rules)

    async def ask(
        self,
        principal: str,
        key: int,
        version: int,
        values: Mapping[str, Any],
        *,
        has_login: bool = False,
    ) -> Any:
        """The answer; None if the connection was closed instead."""
        connection = await self._connection_of(principal)
        protocol = "SASL_PLAINTEXT" if has_login else "PLAINTEXT"
        connection.wire.connection.security_protocol = protocol
        data = await self.answer_to(principal, key, version, values)
        return None if data is None else self.answer(key, version, data)

    def answer(self, key: int, version: int, data: bytes) -> Any:
        """The answer that these bytes are."""
        answered = response_class(registered()[key].request_class)
        _, offset = decode_response_header(data, key, version)
        return decode(answered, version, data, offset)[0]

    async def answer_to(
        self, principal: str, key: int, version: int, values: Mapping[str, Any]
    ) -> bytes | None:
        """The bytes of an answer; None if the connection was closed instead."""
        connection = await self.send(principal, key, version, values)
        for _ in range(_LOOKS):
            answers = connection.answers()
            if answers:
                return answers[0]
            if connection.wire.is_closed:
                return None
            await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"no answer to {key} v{version} {values}")

    async def send(
        self, principal: str, key: int, version: int, values: Mapping[str, Any]
    ) -> HuntedConnection:
        """Send a request by the connection of somebody, which is given back."""
        frame = self.frame(key, version, values)
        connection = await self._connection_of(principal)
        await connection.deliver([struct.pack(">i", len(frame)) + frame])
        return connection

    def frame(self, key: int, version: int, values: Mapping[str, Any]) -> bytes:
        """A request without its size."""
        request = self.message(registered()[key].request_class, values)
        head = encode_request_header(RequestHeader(key, version, _CORRELATION_ID, "client"))
        return bytes(encode(request, version, head))

    async def _connection_of(self, principal: str) -> HuntedConnection:
        connection = self._clients.get(principal)
        if connection is None or connection.wire.is_closed:
            connection = self._clients[principal] = await self.connect()
            connection.wire.connection.principal = principal
            connection.wire.connection.peer_host = ADDRESS
        return connection

    def message(self, declared: type[Struct], values: Mapping[str, Any]) -> Any:
        """A message, or a struct of one, with these values; others have their defaults."""
        specs = {each.name: each for each in field_specs(declared)}
        made = {}
        for name, value in values.items():
            struct_class = specs[name].struct
            if struct_class is None:
                made[name] = self._id_of(value) if isinstance(value, IdOf) else value
            elif isinstance(value, Mapping):
                made[name] = self.message(struct_class, value)
            elif value is not None:
                made[name] = [self.message(struct_class, each) for each in value]
            else:
                made[name] = None
        return declared(**made)

    def _id_of(self, name: str) -> UUID:
        return NOBODYS_ID if name not in self.process.metadata.topics() else self.topic_id(name)
