"""Connect strings, and servers that know less; everything else of KazooTree is in the contract that
both stores keep.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import ZnodeStat

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.zk_access import zk_access
from kbroker.zk.ensemble import kazoo_tree
from kbroker.zk.ensemble.kazoo_calls import KazooCalls
from kbroker.zk.ensemble.kazoo_requests import GetMany
from kbroker.zk.ensemble.kazoo_tree import EnsembleUnreachableError, KazooTree, parse_connect
from kbroker.zk.tree import Stat
from tests.fakes.requests.scripted_connection import ScriptedConnection

STAT = Stat(
    czxid=1, mzxid=1, ctime_ms=0, mtime_ms=0, version=0, cversion=0, ephemeral_owner=0,
    data_length=1, num_children=0,
)  # fmt: skip
KAZOO_STAT = ZnodeStat(1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1)


async def opened(
    monkeypatch: pytest.MonkeyPatch, told: Any
) -> tuple[KazooTree, ScriptedConnection]:
    """A tree whose server says so when it is asked for several nodes at once."""
    made: list[ScriptedConnection] = []

    def connection(*given: Any) -> ScriptedConnection:
        made.append(ScriptedConnection(*given))
        return made[-1]

    monkeypatch.setattr(kazoo_tree, "KazooCalls", partial(KazooCalls, connection=connection))
    tree = KazooTree("zk:1", "", 6000, 10)
    opening = asyncio.create_task(tree.open(makes_chroot=True))
    await asyncio.sleep(0)
    made[0].connect()
    made[0].answer("/")  # to sync
    for _ in range(3):
        await asyncio.sleep(0)
    made[0].answer(told)
    await opening
    return tree, made[0]


def kinds(connection: ScriptedConnection) -> list[type]:
    return [type(request) for request in connection.sent]


async def read(
    tree: KazooTree, connection: ScriptedConnection, *answers: Any
) -> list[bytes | None]:
    """Return what two nodes are told to hold."""
    connection.sent.clear()
    reading = asyncio.create_task(tree.get_all(["/a", "/b"]))
    await asyncio.sleep(0)
    for answer in answers:
        connection.answer(answer)
        if isinstance(answer, kazoo_errors.UnimplementedError):
            connection.cut()  # as such a server does
            connection.connect()
            connection.answer("/")
            for _ in range(3):
                await asyncio.sleep(0)
    return [node and node[0] for node in await reading]


async def test_many_nodes_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, connection = await opened(monkeypatch, [(b"", STAT)])

    assert await read(tree, connection, [(b"x", STAT), kazoo_errors.NoNodeError()]) == [b"x", None]
    assert kinds(connection) == [GetMany]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_server_that_cannot_read_them_together_is_asked_for_each(
    monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    unknown = kazoo_errors.UnimplementedError()
    tree, connection = await opened(monkeypatch, unknown if is_first else [(b"", STAT)])
    refusals = [] if is_first else [unknown]  # the next server that it connects to
    answers = (b"x", KAZOO_STAT), (b"y", KAZOO_STAT)

    assert await read(tree, connection, *refusals, *answers) == [b"x", b"y"]
    assert await read(tree, connection, *answers) == [b"x", b"y"]
    assert kinds(connection) == [GetData, GetData]


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        ("zk:2181", ("zk:2181", "")),
        ("zk", ("zk", "")),
        ("a:1,b:2,c:3/kafka", ("a:1,b:2,c:3", "/kafka")),
        ("a:1,b:2/one/two/", ("a:1,b:2", "/one/two")),
        ("a:1/", ("a:1", "")),
        ("[::1]:2181/kafka", ("[::1]:2181", "/kafka")),
    ],
)
def test_a_connect_string_has_servers_and_a_chroot(connect: str, expected: tuple[str, str]) -> None:
    assert parse_connect(connect) == expected


@pytest.mark.parametrize(
    "connect", ["", "/kafka", "a:x", "a:0", "a:65536", "a:1,", ":2181", "a:1//k", "a:1/./k"]
)
def test_what_is_no_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT|has a chroot"):
        parse_connect(connect)


def test_an_ensemble_that_is_not_there_is_one_sentence_with_address_and_time() -> None:
    error = EnsembleUnreachableError("zk:2181/kafka", 18000, "Connection refused")

    assert str(error) == (
        "no connection to ZooKeeper at zk:2181/kafka within 18000 ms (Connection refused): check "
        "zookeeper.connect and whether the ensemble runs, or give it longer with "
        "zookeeper.connection.timeout.ms"
    )
    assert error.path == "/"


@pytest.mark.parametrize("has_tls", [False, True])
async def test_a_server_that_breaks_each_connection_may_want_tls(
    monkeypatch: pytest.MonkeyPatch, has_tls: bool
) -> None:
    class Broken(ScriptedConnection):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.last_complaint = "socket connection broken"

    monkeypatch.setattr(kazoo_tree, "KazooCalls", partial(KazooCalls, connection=Broken))
    tls = {"zookeeper.ssl.client.enable": "true"} if has_tls else {}
    access = zk_access(KafkaConfig({"zookeeper.connect": "zk:1", **tls}))

    with pytest.raises(EnsembleUnreachableError) as caught:
        await kazoo_tree.open_kazoo_tree("zk:1", 6000, 1, access=access)
    assert ("see zookeeper.ssl.client.enable" in str(caught.value)) is not has_tls
