"""Requests about delegation tokens: who may send them, about whose tokens, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.admin.delegation_token_manager import DelegationTokenManager
from kbroker.apis import describe_delegation_token
from kbroker.apis.context import Services
from kbroker.config.delegation_token_settings import DelegationTokenSettings
from kbroker.delegation_tokens.delegation_token import DelegationToken, Lifetimes, signature
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest as Create
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest as Describe,
)
from kbroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest as Expire
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest as Renew
from kbroker.protocol.schema import Message
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer, ask

DAY_MS = 86_400_000
ANN = {"security_protocol": "SASL_PLAINTEXT", "principal": "User:ann"}
BOB, ZOE = ANN | {"principal": "User:bob"}, ANN | {"principal": "User:zoe"}
REQUESTS: tuple[Message, ...] = (Create(), Renew(), Expire(), Describe(owners=None))
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class Broker:
    """A broker with delegation tokens, whose authorizer denies what a test says."""

    def __init__(self, cluster: Any, services: Services) -> None:
        self._loop = cluster.loop
        self.time = cluster.time
        settings = DelegationTokenSettings(
            secret=b"secret", lifetimes=Lifetimes(DAY_MS, 7 * DAY_MS), check_interval_ms=DAY_MS
        )
        zk = ZkUtils(EmbeddedTree(self.time).session(), self.time)
        self.tokens = DelegationTokenManager(zk, self.time, settings, lambda: False)
        self.services = replace(services, tokens=self.tokens)
        self._loop.run_until_complete(self.tokens.start())

    def deny(self, *denied: tuple[AclOperation, AclResource]) -> None:
        self.services = replace(self.services, authorizer=DenyingAuthorizer(*denied))

    def ask(
        self, request: Message, client: dict[str, Any] = ANN, version: int | None = None
    ) -> Any:
        version = request.spec.served.highest if version is None else version
        return self._loop.run_until_complete(ask(self.services, request, version, **client))

    def created(self, client: dict[str, Any] = ANN, **fields: Any) -> DelegationToken:
        answer = self.ask(Create(max_lifetime_ms=-1, **fields), client)
        assert answer.error_code == ErrorCode.NONE
        found = self.tokens.find(answer.token_id)
        assert found is not None
        return found

    def seen(self, client: dict[str, Any], *owners: str) -> set[str]:
        asked = None
        if owners:
            asked = [
                Describe.DescribeDelegationTokenOwner(principal_type="User", principal_name=owner)
                for owner in owners
            ]
        return {token.token_id for token in self.ask(Describe(owners=asked), client).tokens}

    def close(self) -> None:
        self._loop.run_until_complete(self.tokens.stop())


@pytest.fixture
def broker(cluster: Any, call: Any) -> Iterator[Broker]:
    broker = Broker(cluster, call.services)
    yield broker
    broker.close()


def renewer(name: str, kind: str = "User") -> Create.CreatableRenewers:
    return Create.CreatableRenewers(principal_type=kind, principal_name=name)


def hmac_of(token: DelegationToken) -> bytes:
    return signature(b"secret", token.token_id)


@pytest.mark.parametrize("version", range(4))
def test_a_token_is_made_for_who_asks(broker: Broker, version: int) -> None:
    answer = broker.ask(Create(renewers=[renewer("bob")], max_lifetime_ms=-1), ANN, version)

    now_ms, token = broker.time.now_ms(), broker.tokens.find(answer.token_id)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.principal_type, answer.principal_name) == ("User", "ann")
    asked_by = (answer.token_requester_principal_type, answer.token_requester_principal_name)
    assert asked_by == (("User", "ann") if version >= 3 else ("", ""))
    times = answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms
    assert times == (now_ms, now_ms + DAY_MS, now_ms + 7 * DAY_MS)
    assert token is not None
    assert token.renewers == ("User:bob",)
    assert answer.hmac == hmac_of(token)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    "client",
    [
        {"security_protocol": "PLAINTEXT", "principal": "User:ann"},
        {"security_protocol": "SSL", "principal": "User:ANONYMOUS"},
        ANN | {"has_token": True},
        ANN | {"has_token": True, "security_protocol": "SASL_SSL"},
    ],
    ids=["plain", "one-way TLS", "token", "token by TLS"],
)
def test_no_token_begets_a_token_and_nobody_unknown_gets_one(
    broker: Broker, request_: Message, client: dict[str, Any]
) -> None:
    for services in (broker.services, replace(broker.services, tokens=None)):
        broker.services = services
        answer = broker.ask(request_, client)
        assert answer.error_code == NOT_ALLOWED
        assert getattr(answer, "expiry_timestamp_ms", -1) == -1
        assert getattr(answer, "hmac", b"") == b""
        assert getattr(answer, "tokens", []) == []


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_without_a_secret_there_are_no_tokens(broker: Broker, request_: Message) -> None:
    broker.services = replace(broker.services, tokens=None)
    for client in (ANN, ANN | {"security_protocol": "SSL", "principal": "User:CN=ann"}):
        for version in request_.spec.served:
            answer = broker.ask(request_, client, version)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_a_token_for_another_needs_a_right_to_that_user(broker: Broker) -> None:
    for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    broker.deny((AclOperation.CREATE_TOKENS, AclResource(AclResourceType.USER, "User:bob")))

    refused = broker.ask(Create(**for_bob))
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "ann")
    assert refused.issue_timestamp_ms == -1
    assert broker.created(BOB, **for_bob).requester == "User:bob"
    broker.deny()
    token = broker.created(ANN, **for_bob)
    assert (token.owner, token.requester) == ("User:bob", "User:ann")


@pytest.mark.parametrize(
    "fields",
    [
        {"renewers": [renewer("bob"), renewer("x", "Group")]},
        {"renewers": [renewer("x", "")]},
        {"owner_principal_type": None, "owner_principal_name": "ann"},
        {"owner_principal_type": "", "owner_principal_name": "ann"},
    ],
    ids=range(4),
)
def test_principals_of_no_known_type_are_refused(broker: Broker, fields: dict[str, Any]) -> None:
    assert broker.ask(Create(**fields)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert broker.tokens.count == 0


@pytest.mark.parametrize("version", range(3))
def test_owner_and_renewers_renew_and_expire_and_nobody_else(broker: Broker, version: int) -> None:
    token = broker.created(renewers=[renewer("bob")])
    hmac, now_ms = hmac_of(token), broker.time.now_ms()

    for client in (ANN, BOB):
        renewed = broker.ask(Renew(hmac=hmac, renew_period_ms=5), client, version)
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now_ms + 5)
        ended = broker.ask(Expire(hmac=hmac, expiry_time_period_ms=3), client, version)
        assert (ended.error_code, ended.expiry_timestamp_ms) == (0, now_ms + 3)
    for request in (Renew(hmac=hmac), Expire(hmac=hmac, expiry_time_period_ms=-1)):
        answer = broker.ask(request, ZOE, version)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert answer.expiry_timestamp_ms == -1
    for request in (Renew(hmac=b"x"), Expire(hmac=b"")):
        answer = broker.ask(request, ANN, version)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    broker.time.advance(4)
    expired = broker.ask(Renew(hmac=hmac, renew_period_ms=5), ANN, version)
    assert expired.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    ended = broker.ask(Expire(hmac=hmac, expiry_time_period_ms=-1), BOB, version)
    assert (ended.error_code, ended.expiry_timestamp_ms) == (0, broker.time.now_ms())
    assert broker.tokens.count == 0


@pytest.mark.parametrize("is_large", [False, True])
def test_tokens_are_shown_to_those_whom_they_concern_or_who_have_a_right(
    broker: Broker, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(describe_delegation_token, "is_large", lambda _: True)
    broker.deny()
    of_ann = broker.created(renewers=[renewer("bob")])
    by_ann = broker.created(owner_principal_type="User", owner_principal_name="carl")
    of_bob = broker.created(BOB)
    ids = [each.token_id for each in (of_ann, by_ann, of_bob)]
    itself = [AclResource(AclResourceType.DELEGATION_TOKEN, each) for each in ids]
    owners = [AclResource(AclResourceType.USER, f"User:{n}") for n in ("ann", "carl", "bob")]
    by_id = [(AclOperation.DESCRIBE, each) for each in itself]
    by_owner = [(AclOperation.DESCRIBE_TOKENS, each) for each in owners]
    broker.deny(*by_id, *by_owner)

    assert broker.seen(ANN) == {*ids[:2]}
    assert broker.seen(BOB) == {ids[0], ids[2]}
    assert broker.seen(ZOE) == set()
    assert broker.seen(BOB, "ann") == {ids[0]}
    assert broker.seen(BOB, "carl", "nobody") == set()
    broker.deny(*by_id, *by_owner[1:])
    assert broker.seen(ZOE) == {ids[0]}
    broker.deny(*by_id[1:], *by_owner)
    assert broker.seen(ZOE) == {ids[0]}
    assert broker.seen(ZOE, "carl") == set()
    assert broker.ask(Describe(owners=[]), ANN).tokens == []


@pytest.mark.parametrize("version", range(4))
def test_a_token_is_described_with_its_signature(broker: Broker, version: int) -> None:
    token = broker.created(renewers=[renewer("bob"), renewer("a:b")])

    (shown,) = broker.ask(Describe(owners=None), ANN, version).tokens

    assert (shown.principal_type, shown.principal_name) == ("User", "ann")
    assert shown.token_requester_principal_name == ("ann" if version >= 3 else "")
    times = shown.issue_timestamp, shown.expiry_timestamp, shown.max_timestamp
    assert times == (token.issued_ms, token.expires_ms, token.ends_ms)
    assert (shown.token_id, shown.hmac) == (token.token_id, hmac_of(token))
    assert [each.principal_name for each in shown.renewers] == ["bob", "a:b"]
