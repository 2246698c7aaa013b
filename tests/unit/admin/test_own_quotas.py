"""Limits that code of the operator's decides: what it is asked and told, and that nothing that it
does wrong lifts a limit or holds the loop.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.admin import own_quotas
from kbroker.admin.own_quotas import AGAIN_MS, OwnQuotas, QuotaCallback, QuotaCluster
from kbroker.quotas.client_quota_manager import ClientAccount
from kbroker.quotas.quota_entity import DEFAULT, QuotaEntity
from kbroker.quotas.rate import Windows
from kbroker.replication.metadata_cache import MetadataCache
from tests.fakes.clusters.replication_cluster import partition_metadata, update_metadata
from tests.fakes.running.virtual_time import VirtualTime
from tests.fakes.running.waiting import until

LONG_S = 30.0
Tags = Mapping[str, str]


def of_user(_kind: str, principal: str, _client_id: str) -> dict[str, str]:
    return {"user": principal.partition(":")[2]}


class Broker:
    """Limits that a callback of these functions decides."""

    def __init__(
        self,
        limit: Callable[[str, Tags], Any] = lambda _kind, _tags: 5,
        tags: Callable[[str, str, str], Any] = of_user,
        answer_s: float = LONG_S,
        **more: Any,
    ) -> None:
        self.time = VirtualTime()
        self.changes = 0
        self.metadata = MetadataCache(1, "cluster")
        callback = SimpleNamespace(quota_metric_tags=tags, quota_limit=limit, **more)
        windows = Windows(11, 1_000)
        self.quotas = OwnQuotas(
            QuotaCallback("team:Quotas", callback), self.time, (windows, windows), self._changed, self.metadata,
            answer_s,
        )  # fmt: skip

    def _changed(self) -> None:
        self.changes += 1
        self.quotas.settle()

    async def limits(self, user: str = "ann", client_id: str | None = "app") -> list[Any]:
        """The limits of a client, in the order of kinds, once they are known."""
        principal = f"User:{user}"
        asked = self.quotas.ask(principal, client_id)
        if asked is not None:
            await asked
        return limits_in(self.quotas.account(principal, client_id, self.time.monotonic_ms()))


def limits_in(account: ClientAccount) -> list[Any]:
    return [None if quota is None else quota.limit for quota in account]


async def test_it_is_asked_once_about_a_client_on_a_thread_in_kafkas_words() -> None:
    asked: list[tuple[Any, ...]] = []

    def tags(*of: str) -> dict[str, str]:
        asked.append((*of, threading.current_thread().name))
        return {"tenant": "a"}

    broker = Broker(lambda kind, tags: {"PRODUCE": 7}.get(kind), tags)
    for _ in range(2):
        assert await broker.limits() == [7, None, None, None]
    assert await broker.limits("bob", None) == [7, None, None, None]

    kinds = "PRODUCE", "FETCH", "REQUEST", "CONTROLLER_MUTATION"
    assert asked == [
        (kind, principal, client_id, "client-quotas")
        for principal, client_id in (("User:ann", "app"), ("User:bob", ""))
        for kind in kinds
    ]
    shared = {
        id(broker.quotas.account(f"User:{u}", c, 0).produce)
        for u, c in (("ann", "app"), ("bob", None))
    }
    assert len(shared) == 1, "who has the same tags shares a limit"
    await broker.quotas.stop()


async def test_it_is_told_of_limits_in_the_tree_before_it_is_asked_again() -> None:
    told: list[tuple[Any, ...]] = []
    broker = Broker(
        lambda _kind, _tags: len(told),
        update_quota=lambda *of: told.append(of),
        remove_quota=lambda *of: told.append(of),
    )
    assert await broker.limits() == [0] * 4
    both = QuotaEntity(user="ann", client_id=DEFAULT)
    broker.quotas.put(both, {"producer_byte_rate": 5.0, "request_percentage": 50.0})
    broker.quotas.put(both, {"request_percentage": 50.0})
    await until(lambda: broker.changes == 2)

    names = {"user": "ann", "client-id": None}
    assert told == [
        ("PRODUCE", names, 5.0), ("REQUEST", names, 50.0), ("PRODUCE", names)
    ]  # fmt: skip
    assert await broker.limits() == [3] * 4
    await broker.quotas.stop()


def raises(_kind: str, _tags: Tags) -> float:
    raise RuntimeError("a bug" * 1_000)


@pytest.mark.parametrize(
    ("limit", "tags", "named"),
    [
        (raises, of_user, "it raised RuntimeError"),
        (lambda _kind, _tags: sys.exit(0), of_user, "it raised SystemExit"),
        (lambda _kind, _tags: "5", of_user, "quota_limit said a value of type str"),
        (lambda _kind, _tags: True, of_user, "quota_limit said a value of type bool"),
        (lambda _kind, _tags: -1, of_user, "quota_limit said -1, which is not a limit"),
        (lambda _kind, _tags: float("nan"), of_user, "quota_limit said nan"),
        (lambda _kind, _tags: 5, lambda *_: None, "quota_metric_tags said a value of type NoneT"),
        (lambda _kind, _tags: 5, lambda *_: {"user": 1}, "quota_metric_tags said a value of ty"),
    ],
)
async def test_what_is_not_an_answer_lifts_no_limit_and_the_log_names_it_once(
    limit: Any, tags: Any, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(limit, tags)

    assert [await broker.limits(user) for user in ("ann", "bob")] == [[0] * 4] * 2
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"client.quota.callback.class=team:Quotas lifts no limit: {named}")
    assert len(line) < 300
    await broker.quotas.stop()


async def test_who_had_a_limit_keeps_it_while_the_code_fails_and_it_is_asked_again_later() -> None:
    answers: list[Any] = [5] * 4 + [None, "wrong"] + [7] * 4
    broker = Broker(lambda _kind, _tags: answers.pop(0))
    assert await broker.limits() == [5] * 4
    broker.quotas.ask_again()

    assert await broker.limits() == [5] * 4
    assert await broker.limits() == [5] * 4, "it is not asked at each request"
    broker.time.advance(AGAIN_MS)
    changes = broker.changes
    assert await broker.limits() == [7] * 4
    assert broker.changes == changes + 1, "what was learnt with the former one goes"
    assert await broker.limits() == [7] * 4
    await broker.quotas.stop()


async def test_code_that_hangs_holds_up_neither_the_loop_nor_clients_it_has_not_been_asked_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go = threading.Event()
    broker = Broker(lambda _kind, _tags: go.wait(LONG_S) and 5, answer_s=0.001)

    assert await asyncio.gather(*[broker.limits(f"user-{n}") for n in range(3)]) == [[0] * 4] * 3
    assert await broker.limits("ann") == [0] * 4
    assert "it has not answered within 0.001 s" in caplog.text
    assert "it is still at a former question" in caplog.text
    go.set()
    await until(lambda: broker.quotas.late is not None and broker.quotas.late.done.is_set())
    await broker.quotas.stop()


async def test_a_flag_of_the_code_makes_all_clients_be_asked_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_quotas, "LOOK_S", 0.0)
    limits, flags = [5.0], [False, False, False, False, True, False, False, False]
    broker = Broker(
        lambda _kind, _tags: limits[0],
        quota_reset_required=lambda _kind: bool(flags) and flags.pop(0),
        close=limits.clear,
    )
    await broker.quotas.start()
    assert await broker.limits() == [5] * 4
    limits[0] = 7.0
    await until(lambda: not flags and broker.changes >= 2)

    assert await broker.limits() == [7] * 4
    await broker.quotas.stop()
    assert limits == [], "it was closed"


async def test_it_is_told_of_the_cluster_when_that_has_changed_and_says_whether_limits_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_quotas, "LOOK_S", 0.0)
    told: list[QuotaCluster] = []

    def tell(cluster: QuotaCluster) -> bool:
        told.append(cluster)
        return bool(cluster.leaders)

    broker = Broker(lambda _kind, _tags: len(told), update_cluster_metadata=tell)
    await broker.quotas.start()
    await until(lambda: len(told) == 1)
    assert await broker.limits() == [1] * 4
    changes = broker.changes

    state = partition_metadata(0, leader=2, replicas=(2,), isr=(2,))
    broker.metadata.update(update_metadata(("orders", state), brokers=(1, 2)))
    await until(lambda: broker.changes > changes)

    assert told[-1] == QuotaCluster("cluster", told[-1].controller_id, (1, 2), {"orders": {0: 2}})
    assert await broker.limits() == [2] * 4
    assert len(told) == 2
    await broker.quotas.stop()


async def test_an_infinite_limit_is_none_and_a_client_that_was_never_asked_about_has_nothing() -> (
    None
):
    broker = Broker(lambda _kind, _tags: float("inf"))
    assert await broker.limits() == [None] * 4
    assert limits_in(broker.quotas.account("User:bob", "app", 0)) == [0] * 4
    await broker.quotas.stop()


async def test_little_is_kept_of_clients_that_call_themselves_at_length() -> None:
    broker = Broker(
        tags=lambda _kind, _user, client_id: {"client-id": client_id, client_id: client_id}
    )
    failing = Broker(raises)
    await broker.limits("ann", "y" * 30_000)  # which loads what a digest needs
    await failing.limits("ann", "y" * 30_000)
    tracemalloc.start()
    try:
        for number in range(50):
            client_id = f"{number}{'x' * 30_000}"
            await broker.limits("ann", client_id)
            await failing.limits("ann", client_id)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    await broker.quotas.stop()
    await failing.quotas.stop()


async def test_clients_are_asked_about_again_after_a_wrong_answer_whatever_way_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_quotas, "AGAIN_MS", 1)
    broker = Broker(raises)
    await broker.limits()
    await broker.limits("bob")

    await until(lambda: broker.changes == 1)  # or their connections go on with what they learnt
    await broker.quotas.stop()


async def test_an_answer_that_comes_late_counts_from_then_on() -> None:
    go = threading.Event()
    broker = Broker(lambda _kind, _tags: go.wait(LONG_S) and 5, answer_s=0.001)
    asked = await asyncio.gather(*[broker.limits(f"user-{n}") for n in range(3)])
    assert asked == [[0] * 4] * 3
    go.set()
    await until(lambda: broker.changes == 3)

    asked = await asyncio.gather(*[broker.limits(f"user-{n}") for n in range(3)])
    assert asked == [[5] * 4] * 3, "though it is not asked again yet"
    await broker.quotas.stop()


async def test_an_answer_counts_that_is_there_before_a_busy_loop_looks_for_it() -> None:
    broker = Broker(answer_s=0.01)
    asked = asyncio.gather(broker.limits(), broker.limits("bob"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert broker.quotas.ask("User:bob", "app") is not None, "both wait"
    time.sleep(0.1)  # noqa: ASYNC251  the loop is at something else
    assert await asked == [[5] * 4] * 2
    await broker.quotas.stop()


async def test_many_clients_that_come_at_once_wait_in_line_and_all_get_their_limits() -> None:
    def takes_its_time(kind: str, _tags: Tags) -> float:
        if kind == "PRODUCE":
            time.sleep(0.02)
        return 5

    broker = Broker(takes_its_time, answer_s=0.2)
    asked = await asyncio.gather(*[broker.limits(f"user-{n}") for n in range(25)])
    assert asked == [[5] * 4] * 25
    await broker.quotas.stop()


async def test_of_too_many_clients_it_is_asked_again_about_those_that_were_idle_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_quotas, "ACCOUNTS_MAX", 2)
    asked: list[str] = []
    broker = Broker(lambda kind, tags: asked.append(tags["user"]) if kind == "FETCH" else None)
    for user in ("ann", "bob", "ann", "carl", "ann", "bob"):
        await broker.limits(user)
    assert asked == ["ann", "bob", "carl", "bob"]
    await broker.quotas.stop()
