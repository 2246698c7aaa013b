"""Connect strings; everything else of KazooTree is in the contract that both stores keep."""

from __future__ import annotations

import pytest

from kbroker.zk.ensemble.kazoo_tree import EnsembleUnreachableError, parse_connect


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
