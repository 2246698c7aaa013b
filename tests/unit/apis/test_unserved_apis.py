"""What is listed, as by Kafka, and refused, as by Kafka where it is switched off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.schema import Message
from kbroker.unserved import CONSUMER_PROTOCOL, SASL, SHARE_GROUPS, Unserved
from tests.fakes.brokers.group_caller import GroupCaller

CONSUMER = ConsumerGroupHeartbeatRequest(group_id="g", rebalance_timeout_ms=1000)
SHARE = ShareGroupHeartbeatRequest(group_id="g")
HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN")
TOKEN = SaslAuthenticateRequest(auth_bytes=b"\0user\0password")


def answer_and_named(request: Message, version: int) -> tuple[Any, list[Unserved]]:
    call, named = GroupCaller(), []
    call.services = replace(
        call.services, name_unserved=lambda _connection, _client_id, what: named.append(what)
    )
    return call.through_stages(request, version), named


@pytest.mark.parametrize(
    ("request_", "version", "what"),
    [(CONSUMER, 0, CONSUMER_PROTOCOL), (CONSUMER, 1, CONSUMER_PROTOCOL), (SHARE, 1, SHARE_GROUPS)],
)
def test_members_of_other_groups_are_refused_with_a_text(
    request_: Message, version: int, what: Unserved
) -> None:
    answer, named = answer_and_named(request_, version)

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == str(what)
    assert named == [what]


@pytest.mark.parametrize(("request_", "versions"), [(HANDSHAKE, 2), (TOKEN, 3)])
def test_a_login_is_refused_where_nobody_logs_in(request_: Message, versions: int) -> None:
    for version in range(versions):
        answer, named = answer_and_named(request_, version)

        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert named == [SASL]
