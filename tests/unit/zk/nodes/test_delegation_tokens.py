"""Delegation tokens in nodes: Kafka's bytes, and what is no token."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.errors import ErrorCode, KafkaError
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.delegation_token_znodes import (
    decode_change,
    decode_token,
    encode_change,
    encode_token,
    token_path,
)
from kbroker.zk.nodes.delegation_tokens import ZkDelegationTokens
from kbroker.zk.tree import BadVersionError, Op, OpResult, Tree
from kbroker.zk.zk_paths import DELEGATION_TOKEN_CHANGES
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.znode_json import ZnodeFormatError
from tests.fakes.trees.memory_tree_files import FixedClock

TOKEN_ID = "W4hGMCCoQVuLkyITclJg3w"
TOKEN = DelegationToken(
    TOKEN_ID, "User:CN=ann,O=é", "User:admin", ("User:bob", "User:a b"), 5, 7, 2**63 - 1
)
KAFKAS = (
    '{"issueTimestamp":5,"renewers":["User%3Abob","User%3Aa%20b"],"tokenRequester":"User%3Aadmin",'
    '"tokenId":"W4hGMCCoQVuLkyITclJg3w","owner":"User%3ACN%3Dann%2CO%3D%C3%A9",'
    '"expiryTimestamp":7,"maxTimestamp":9223372036854775807,"version":3}'
)


def test_a_token_is_written_as_kafka_writes_it() -> None:
    assert encode_token(TOKEN).decode() == KAFKAS
    assert decode_token(TOKEN_ID, KAFKAS.encode()) == TOKEN


@pytest.mark.parametrize("version", [1, 2])
def test_in_older_versions_the_owner_has_asked(version: int) -> None:
    fields = json.loads(KAFKAS) | {"version": version}
    del fields["tokenRequester"]

    found = decode_token(TOKEN_ID, json.dumps(fields).encode())

    assert found == TOKEN._replace(requester=TOKEN.owner)


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 4}, {"version": 0}, {"version": "3"}, {"version": None},
        {"owner": "ann"}, {"owner": None}, {"owner": ["User%3Aann"]}, {"tokenRequester": "x"},
        {"tokenId": "other"}, {"renewers": "User%3Abob"}, {"renewers": ["bob"]},
        {"renewers": [1]}, {"renewers": None}, {"maxTimestamp": "1"}, {"maxTimestamp": 2**63},
        {"expiryTimestamp": 1.5}, {"expiryTimestamp": True}, {"issueTimestamp": None},
    ],
    ids=str,
)  # fmt: skip
def test_what_kafka_could_not_have_written_is_no_token(changed: dict[str, object]) -> None:
    with pytest.raises(ZnodeFormatError, match=token_path(TOKEN_ID)):
        decode_token(TOKEN_ID, json.dumps(json.loads(KAFKAS) | changed).encode())


@pytest.mark.parametrize("field", json.loads(KAFKAS))
def test_no_field_may_be_missing(field: str) -> None:
    fields = json.loads(KAFKAS)
    del fields[field]
    with pytest.raises(ZnodeFormatError):
        decode_token(TOKEN_ID, json.dumps(fields).encode())


@pytest.mark.parametrize("data", [None, b"", b"[]", b"{", b"\xff", b"3"])
def test_spoilt_nodes_are_no_tokens(data: bytes | None) -> None:
    with pytest.raises(ZnodeFormatError):
        decode_token(TOKEN_ID, data)


def test_a_notification_has_the_id_alone() -> None:
    assert encode_change(TOKEN_ID) == TOKEN_ID.encode()
    assert decode_change(TOKEN_ID.encode()) == TOKEN_ID
    for spoilt in (None, b"", b"a/b", b"..", b"\xff", b"a\0"):
        with pytest.raises(ZnodeFormatError):
            decode_change(spoilt)


class Stored:
    """The nodes of an empty tree."""

    def __init__(self) -> None:
        self.tree: Tree = EmbeddedTree(FixedClock()).session()
        self.tokens = ZkDelegationTokens(ZkUtils(self.tree, FixedClock()))

    async def notified(self) -> list[bytes | None]:
        names = await self.tree.children(DELEGATION_TOKEN_CHANGES)
        return [(await self.tree.get(f"{DELEGATION_TOKEN_CHANGES}/{n}"))[0] for n in names]


async def test_each_change_is_written_with_its_notification() -> None:
    stored = Stored()

    assert await stored.tokens.change(TOKEN_ID, lambda _: TOKEN) == TOKEN
    assert (await stored.tree.get(token_path(TOKEN_ID)))[0] == KAFKAS.encode()
    later = TOKEN._replace(expires_ms=8)
    assert await stored.tokens.change(TOKEN_ID, lambda before: later) == later
    assert await stored.tokens.change(TOKEN_ID, lambda before: before) == later
    assert await stored.tokens.read([TOKEN_ID, "other"]) == {TOKEN_ID: later, "other": None}
    assert [each async for each in stored.tokens.every()] == [{TOKEN_ID: later}]
    assert await stored.tokens.change(TOKEN_ID, lambda _: None) is None
    assert await stored.tokens.change(TOKEN_ID, lambda _: None) is None

    assert await stored.notified() == [TOKEN_ID.encode()] * 3
    assert await stored.tree.exists(token_path(TOKEN_ID)) is None


async def test_a_change_by_others_meanwhile_is_not_lost() -> None:
    stored = Stored()
    await stored.tokens.change(TOKEN_ID, lambda _: TOKEN)
    write = stored.tree.multi

    async def write_late(ops: Sequence[Op]) -> list[OpResult]:
        stored.tree.multi = write  # type: ignore[method-assign]
        await stored.tree.set(token_path(TOKEN_ID), encode_token(TOKEN._replace(ends_ms=9)))
        return await write(ops)

    stored.tree.multi = write_late  # type: ignore[method-assign]
    after = await stored.tokens.change(TOKEN_ID, lambda it: it and it._replace(expires_ms=8))

    assert after == TOKEN._replace(ends_ms=9, expires_ms=8)


async def test_a_token_that_is_changed_all_the_time_is_given_up() -> None:
    stored = Stored()
    await stored.tokens.change(TOKEN_ID, lambda _: TOKEN)

    async def lose(ops: Sequence[Op]) -> list[OpResult]:
        raise BadVersionError(ops[0].path)

    stored.tree.multi = lose  # type: ignore[method-assign]
    with pytest.raises(BadVersionError):
        await stored.tokens.change(TOKEN_ID, lambda _: TOKEN._replace(expires_ms=8))


async def test_a_token_with_nodes_below_it_goes_with_them() -> None:
    stored = Stored()
    await stored.tokens.change(TOKEN_ID, lambda _: TOKEN)
    await stored.tree.create(f"{token_path(TOKEN_ID)}/a/b", make_parents=True)

    await stored.tokens.change(TOKEN_ID, lambda _: None)

    assert await stored.tree.exists(token_path(TOKEN_ID)) is None


async def test_a_spoilt_token_is_reported_and_left_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = Stored()
    await stored.tree.create(token_path(TOKEN_ID), b"{}", make_parents=True)

    assert await stored.tokens.read([TOKEN_ID]) == {TOKEN_ID: None}
    assert token_path(TOKEN_ID) in caplog.text
    with pytest.raises(ZnodeFormatError):
        await stored.tokens.change(TOKEN_ID, lambda _: None)


async def test_a_refusal_writes_nothing() -> None:
    stored = Stored()

    def refuse(_: DelegationToken | None) -> None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    with pytest.raises(KafkaError):
        await stored.tokens.change(TOKEN_ID, refuse)
    assert await stored.tree.exists(token_path(TOKEN_ID)) is None
