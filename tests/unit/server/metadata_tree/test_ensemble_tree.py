"""The tree of an ensemble, as far as it goes without one."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.config.zk_config import ZkConfig
from kbroker.errors import ConfigError
from kbroker.server.metadata_tree import ensemble_tree
from kbroker.server.metadata_tree.ensemble_tree import EnsembleTree
from kbroker.zk.ensemble.kazoo_tree import EnsembleUnreachableError
from kbroker.zk.tree import Tree, TreeUnavailableError


async def test_a_connect_string_that_is_none_is_named() -> None:
    tree = EnsembleTree(ZkConfig(zookeeper_connect="zk:port"))

    with pytest.raises(ConfigError, match=r"^zookeeper\.connect: 'zk:port'"):
        await tree.open()
    await tree.close()  # nothing was opened


async def test_what_is_waited_for_is_said_while_the_ensemble_is_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def silent(*_: object, **_options: object) -> Tree:
        while "waiting" not in caplog.text:  # noqa: ASYNC110  a log
            await asyncio.sleep(0.001)
        raise EnsembleUnreachableError("zk:2181", 1, "")

    monkeypatch.setattr(ensemble_tree, "SILENCE_S", 0.0)
    monkeypatch.setattr(ensemble_tree, "open_kazoo_tree", silent)
    caplog.set_level(logging.WARNING)

    with pytest.raises(EnsembleUnreachableError):
        await EnsembleTree(ZkConfig(zookeeper_connect="zk:2181/k")).open()

    assert "waiting up to 18 s for ZooKeeper at zk:2181/k" in caplog.text


async def test_the_time_to_connect_falls_back_to_that_of_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[object, ...]] = []

    async def note(*arguments: object, **_options: object) -> Tree:
        given.append(arguments)
        raise EnsembleUnreachableError("zk:2181", 1, "")

    monkeypatch.setattr(ensemble_tree, "open_kazoo_tree", note)
    for connection_ms in (None, 7):
        config = ZkConfig(
            zookeeper_connect="zk:2181",
            zookeeper_session_timeout_ms=5_000,
            zookeeper_connection_timeout_ms=connection_ms,
            zookeeper_max_in_flight_requests=3,
        )
        with pytest.raises(EnsembleUnreachableError):
            await EnsembleTree(config).open()

    assert given == [("zk:2181", 5_000, 5_000, 3), ("zk:2181", 5_000, 7, 3)]


def test_an_ensemble_that_went_away_during_the_start_is_named() -> None:
    tree = EnsembleTree(ZkConfig(zookeeper_connect="zk:2181"))
    silent = EnsembleUnreachableError("zk:2181", 500, "")

    assert tree.refusal(silent) is silent
    assert str(tree.refusal(TreeUnavailableError("/brokers/topics"))) == (
        "ZooKeeper at zk:2181 could not be reached during the start (at /brokers/topics): check "
        "that "
        "it runs, and start again"
    )
