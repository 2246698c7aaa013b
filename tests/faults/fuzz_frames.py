"""A whole broker in memory that gets requests about rules, tokens, quotas and SCRAM users as frames,
from a super user who came with a login: so most of them reach the tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

from kbroker.acl.acl import AclOperation, AclResourceType, PatternType, Permission
from kbroker.apis.registry import registered
from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, decode_request_header, encode_request_header
from kbroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.schema import Message
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop
from tests.fakes.trees.simulated_tree import Ensemble, TreeWeather
from tests.faults.cluster_network import ClusterNetwork, NetworkWeather, SimulatedChannels
from tests.faults.cluster_process import BrokerProcess, Machine, SimulatedDisk
from tests.properties.message_samples import random_struct

KEYS = frozenset({29, 30, 31, 38, 39, 40, 41, 48, 49, 50, 51})
_FRAMES_EACH = 5_000  # of one broker: what they make stays in its tree
_ADMIN = "User:admin"
_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": f"{_ADMIN};User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}


class FrameBroker:
    """The broker, on a loop of its own."""

    def __init__(self) -> None:
        self._loop = loop = VirtualLoop()
        random, clock = Random(1), LoopClock(loop)
        weather = TreeWeather(random, slow=0.0, watch_slow=0.0)
        machine = Machine(
            broker_id=1,
            disk=SimulatedDisk(clock.now_ms),
            ensemble=Ensemble(EmbeddedTree(clock), loop, weather),
            clock=clock,
            random=random,
            settings=_SETTINGS,
        )
        self._process = process = BrokerProcess(machine, 1)
        quiet = NetworkWeather(random, slow=0.0, lost_requests=0.0, lost_answers=0.0)
        channels = SimulatedChannels(ClusterNetwork(loop, quiet, {1: process}), process)
        self._connection = local_connection()
        self._connection.principal = _ADMIN
        self._connection.security_protocol = "SASL_PLAINTEXT"
        self._wait_for(loop.start(process.start(channels), process.owner, "start"))
        self.asked = 0

    def ask(self, frame: bytes) -> bytes:
        """The answer. Raises ProtocolError, and AssertionError for one that is about a bug."""
        self.asked += 1
        bugs = self._process.parts.requests.bugs
        before = bugs.value
        answer = self._process.answer(bytearray(frame), self._connection)
        found = self._wait_for(self._loop.start(answer, self._process.owner, "request"))
        assert bugs.value == before, "a bug was answered with UNKNOWN_SERVER_ERROR"
        return bytes(found)

    def close(self) -> None:
        """Let its tasks go, so that its memory goes."""
        self._loop.kill(self._process.owner)
        self._loop.close()

    def _wait_for(self, task: asyncio.Task[Any]) -> Any:
        try:
            return self._loop.run_until_complete(task)
        finally:
            asyncio.set_event_loop(None)


_brokers: list[FrameBroker] = []


def read_frame(data: bytes) -> object:
    """Let a broker answer a frame, if it is one of these requests."""
    header, _ = decode_request_header(memoryview(bytearray(data)))
    api = registered().get(header.api_key)
    if header.api_key not in KEYS or api is None or header.api_version not in api.versions:
        return None
    if _brokers and _brokers[0].asked >= _FRAMES_EACH:
        _brokers.pop().close()
    if not _brokers:
        _brokers.append(FrameBroker())
    return _brokers[0].ask(data)


def frames() -> Iterable[bytes]:
    """One of each request in each version with values drawn, and some that change something."""
    for key in sorted(KEYS):
        api = registered()[key]
        for version in range(api.versions.lowest, api.versions.highest + 1):
            yield _frame(random_struct(api.request_class, version, Random(version)), version)
    rule: dict[str, Any] = {
        "operation": AclOperation.READ, "permission_type": Permission.ALLOW,
    }  # fmt: skip
    name = {"resource_name": "orders", "resource_pattern_type": PatternType.PREFIXED}
    who = {"principal": "User:ann", "host": "*"}
    topic = AclResourceType.TOPIC
    creation = CreateAclsRequest.AclCreation(resource_type=topic, **name, **who, **rule)
    yield _frame(CreateAclsRequest(creations=[creation]), 2)
    found = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=topic, resource_name_filter="orders", pattern_type_filter=1,
        principal_filter=None, host_filter=None, **rule,
    )  # fmt: skip
    yield _frame(DeleteAclsRequest(filters=[found]), 2)
    yield _frame(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    quotas = AlterClientQuotasRequest
    entity = [quotas.EntityData(entity_type="user", entity_name="ann")]
    ops = [quotas.OpData(key="producer_byte_rate", value=1024.0, remove=False)]
    yield _frame(AlterClientQuotasRequest(entries=[quotas.EntryData(entity=entity, ops=ops)]), 1)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )
    yield _frame(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)


def _frame(request: Message, version: int) -> bytes:
    assert request.spec.key is not None
    head = encode_request_header(RequestHeader(request.spec.key, version, 7, "client"))
    return bytes(encode(request, version, head))
