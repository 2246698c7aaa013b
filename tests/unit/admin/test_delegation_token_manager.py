"""Two brokers that make, renew, end and follow the delegation tokens of one tree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kbroker.admin import followed_nodes
from kbroker.admin.delegation_token_manager import RENEWERS_MAX, DelegationTokenManager
from kbroker.config.delegation_token_settings import (
    DelegationTokenSettings,
    delegation_token_settings,
)
from kbroker.config.kafka_config import KafkaConfig
from kbroker.delegation_tokens.delegation_token import DelegationToken, Lifetimes
from kbroker.errors import ErrorCode, KafkaError
from kbroker.turns import turns
from kbroker.zk import zk_watchers
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.delegation_token_znodes import encode_token, token_path
from kbroker.zk.zk_paths import DELEGATION_TOKEN_CHANGES
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.running.virtual_time import VirtualTime

HOUR_MS = 3_600_000
ANN, BOB = "User:ann", "User:bob"
SETTINGS = DelegationTokenSettings(
    secret=b"secret", lifetimes=Lifetimes(24 * HOUR_MS, 168 * HOUR_MS), check_interval_ms=HOUR_MS
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (zk_watchers, followed_nodes):
        monkeypatch.setattr(module, "RETRY_BACKOFF_S", 0.0)


class Cluster:
    """Brokers over one tree, of which one may be controller."""

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self.time = VirtualTime()
        self.tree = EmbeddedTree(self.time)
        self.controller: int | None = None
        self.sessions: list[TreeSession] = [self.tree.session() for _ in secrets]
        self.brokers = [self._broker(number, secret) for number, secret in enumerate(secrets)]

    def _broker(self, number: int, secret: bytes) -> DelegationTokenManager:
        settings = DelegationTokenSettings(
            secret=secret, lifetimes=SETTINGS.lifetimes, check_interval_ms=HOUR_MS
        )
        zk = ZkUtils(self.sessions[number], self.time)
        return DelegationTokenManager(zk, self.time, settings, lambda: self.controller == number)

    async def until_both_know(self, token: DelegationToken, known: DelegationToken | None) -> None:
        await until(lambda: all(b.find(token.token_id) == known for b in self.brokers))


@asynccontextmanager
async def running(*secrets: bytes) -> AsyncIterator[Cluster]:
    cluster = Cluster(secrets or (b"secret", b"secret"))
    for broker in cluster.brokers:
        await broker.start()
    try:
        yield cluster
    finally:
        for broker in cluster.brokers:
            await broker.stop()


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never was so")


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


async def test_a_token_is_known_here_at_once_and_to_others_with_its_notification() -> None:
    async with running() as cluster:
        one, other = cluster.brokers
        token = await one.create(ANN, BOB, (BOB,), -1)

        assert one.find(token.token_id) == token
        assert len(token.token_id) == 22
        assert (token.owner, token.requester, token.renewers) == (ANN, BOB, (BOB,))
        await cluster.until_both_know(token, token)
        signed = other.signature(token.token_id)
        ends_ms = await other.renew(BOB, signed, 5)
        assert ends_ms == cluster.time.now_ms() + 5
        await cluster.until_both_know(token, token._replace(expires_ms=ends_ms))
        assert await one.expire(ANN, signed, 3) == cluster.time.now_ms() + 3
        assert await one.expire(ANN, signed, -1) == cluster.time.now_ms()
        assert one.find(token.token_id) is None
        await cluster.until_both_know(token, None)
        assert [broker.count for broker in cluster.brokers] == [0, 0]


async def test_tokens_are_known_after_a_start() -> None:
    async with running() as cluster:
        token = await cluster.brokers[0].create(ANN, ANN, (), -1)
        for broker in cluster.brokers:
            await broker.stop()
        again = DelegationTokenManager(
            ZkUtils(cluster.tree.session(), cluster.time), cluster.time, SETTINGS, lambda: False
        )
        await again.start()

        assert list(again.every()) == [token]
        assert await again.renew(ANN, again.signature(token.token_id), 5) > 0
        await again.stop()


async def test_strangers_and_unknown_signatures_change_nothing() -> None:
    async with running() as cluster:
        broker = cluster.brokers[0]
        token = await broker.create(ANN, ANN, (), -1)
        signed = broker.signature(token.token_id)

        for wrong in (b"", signed[:-1], signed + b"x", token.token_id.encode()):
            with pytest.raises(KafkaError) as caught:
                await broker.renew(ANN, wrong, 5)
            assert code_of(caught) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        with pytest.raises(KafkaError) as caught:
            await broker.expire(BOB, signed, -1)
        assert code_of(caught) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert broker.find(token.token_id) == token


async def test_with_another_secret_former_signatures_are_not_known() -> None:
    async with running(b"former", b"new") as cluster:
        former, new = cluster.brokers
        token = await former.create(ANN, ANN, (), -1)
        await cluster.until_both_know(token, token)
        signed = former.signature(token.token_id)

        assert signed != new.signature(token.token_id)
        with pytest.raises(KafkaError) as caught:
            await new.renew(ANN, signed, 5)
        assert code_of(caught) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await new.renew(ANN, new.signature(token.token_id), 5) > 0


async def test_the_controller_alone_removes_what_has_expired() -> None:
    async with running() as cluster:
        one, other = cluster.brokers
        short = await one.create(ANN, ANN, (), 10_000)
        long = await one.create(ANN, ANN, (), -1)
        await cluster.until_both_know(long, long)
        cluster.time.advance(2 * HOUR_MS)
        await asyncio.sleep(0)
        assert other.count == 2

        cluster.controller = 1  # which looks within seconds, not after the next hour
        cluster.time.advance(5_000)
        await cluster.until_both_know(short, None)
        await cluster.until_both_know(long, long)

        cluster.time.advance(22 * HOUR_MS)
        assert [broker.count for broker in cluster.brokers] == [1, 1]
        cluster.time.advance(HOUR_MS)
        await cluster.until_both_know(long, None)


async def test_a_token_that_was_renewed_elsewhere_is_not_removed() -> None:
    async with running() as cluster:
        one, _ = cluster.brokers
        token = await one.create(ANN, ANN, (), -1)
        cluster.time.advance(25 * HOUR_MS)
        renewed = token._replace(expires_ms=token.ends_ms)
        await cluster.sessions[1].set(token_path(token.token_id), encode_token(renewed))

        await one.remove_expired()

        assert one.find(token.token_id) == renewed


async def test_what_somebody_does_by_hand_counts(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as cluster:
        one, _ = cluster.brokers
        tree, token = cluster.sessions[1], await one.create(ANN, ANN, (), -1)
        signed = one.signature(token.token_id)
        await cluster.until_both_know(token, token)

        await tree.set(token_path(token.token_id), b"spoilt")
        with pytest.raises(KafkaError) as caught:
            await one.renew(ANN, signed, 5)
        assert code_of(caught) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        await tree.create(f"{DELEGATION_TOKEN_CHANGES}/token_change_", b"/", sequential=True)
        await cluster.until_both_know(token, None)
        assert token_path(token.token_id) in caplog.text

        await tree.delete(token_path(token.token_id))
        with pytest.raises(KafkaError) as caught:
            await one.expire(ANN, signed, -1)
        assert code_of(caught) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_a_token_that_was_removed_by_hand_is_gone_once_somebody_asks() -> None:
    async with running() as cluster:
        one, _ = cluster.brokers
        token = await one.create(ANN, ANN, (), -1)
        await cluster.sessions[1].delete(token_path(token.token_id))

        with pytest.raises(KafkaError) as caught:
            await one.renew(ANN, one.signature(token.token_id), 5)
        assert code_of(caught) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_all_are_read_again_after_a_lost_session() -> None:
    async with running() as cluster:
        one, other = cluster.brokers
        token = await one.create(ANN, ANN, (), -1)
        await cluster.until_both_know(token, token)
        lost = cluster.sessions[1]
        lost.suspend()
        await one.expire(ANN, one.signature(token.token_id), -1)
        for name in await cluster.sessions[0].children(DELEGATION_TOKEN_CHANGES):
            await cluster.sessions[0].delete(f"{DELEGATION_TOKEN_CHANGES}/{name}")
        assert other.find(token.token_id) == token
        lost.expire()
        lost.renew()

        await until(lambda: other.find(token.token_id) is None)


@pytest.mark.parametrize("renewers", [(BOB,) * (RENEWERS_MAX + 1), (BOB * 10_000,) * 30])
async def test_too_many_renewers_are_refused(renewers: tuple[str, ...]) -> None:
    async with running() as cluster:
        with pytest.raises(KafkaError) as caught:
            await cluster.brokers[0].create(ANN, ANN, renewers, -1)
        assert code_of(caught) is ErrorCode.INVALID_REQUEST
        assert cluster.brokers[0].count == 0


async def test_many_tokens_are_read_and_removed_in_turns() -> None:
    async with running() as cluster:
        (broker, other), count = cluster.brokers, 200
        for _ in range(count):
            await broker.create(ANN, ANN, (), -1)
        given = turns().given
        await until(lambda: other.count == count)
        assert turns().given >= given + count // 64
        cluster.time.advance(1_000 * HOUR_MS)

        given = turns().given
        await broker.remove_expired()

        assert broker.count == 0
        assert turns().given >= given + count


def test_the_secret_turns_tokens_on_and_its_former_name_does_too() -> None:
    def secret(**settings: str) -> bytes | None:
        config = KafkaConfig({f"delegation.token.{k}.key": v for k, v in settings.items()})
        found = delegation_token_settings(config)
        assert found is None or "hush" not in repr(found)
        return None if found is None else found.secret

    assert secret() is None
    assert secret(secret="") is None
    assert secret(secret="hush") == b"hush"
    assert secret(master="hush-é") == "hush-é".encode()
    assert secret(master="former", secret="hush") == b"hush"
