"""A broker takes the users that its directory had before its first start, alone and in a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.scram_users import described_users, offered_mechanisms, with_password
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.server.metadata_tree.tree_users import alter_users_in, users_in
from tests.fakes.running.forked_broker import Broker

ANN = {"ann": {"SCRAM-SHA-512": 4096}}


@pytest.mark.parametrize("brokers", [1, 2])
def test_users_of_a_new_directory_are_there_at_the_first_start(
    tmp_path: Path, brokers: int
) -> None:
    disk, data = RealFileSystem(), str(tmp_path / "data")
    request = with_password("ann", "secret", ["SCRAM-SHA-512"], 4096)
    assert asyncio.run(alter_users_in(disk, data, request)) == {"ann": None}

    with Broker(data=data, brokers=brokers) as broker:
        links = ClusterLinks(broker.bootstrap)
        assert described_users(links) == ANN
        links.close()

    assert asyncio.run(users_in(disk, data)) == ANN


def test_a_broker_of_a_test_gets_its_secrets_without_an_argument() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "kbroker.first.user": "root:secret",
    }
    with Broker(settings=settings) as broker:
        links = ClusterLinks(broker.bootstrap.partition(",")[0])
        assert list(described_users(links)) == ["root"]
        assert offered_mechanisms(links) == ("SCRAM-SHA-512",)
        links.close()
