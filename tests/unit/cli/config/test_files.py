"""`kbroker config check` finds what `kbroker start` would refuse."""

from __future__ import annotations

import pytest

from kbroker.cli.config.files import findings_in


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"listeners": "SSL://127.0.0.1:9093"}, "TLS needs a key and its certificate"),
        ({"kbroker.advertise": "here"}, "kbroker.advertise=here is not HOST:PORT"),
        ({"zookeeper.connect": "z:x:y"}, "zookeeper.connect: 'z:x:y' is not HOST:PORT"),
        ({"zookeeper.connect": "z:1", "broker.id": "2000"}, "broker.id=2000 is above"),
        ({"log.dir": ""}, "configuration log.dir: at least one directory is needed"),
        ({"log.dirs": ""}, "configuration log.dirs: at least one directory is needed"),
        ({"num.partitions": "x"}, "Invalid value x for configuration num.partitions"),
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "controller.quorum.voters names 2 nodes"),
    ],
)
def test_what_keeps_a_broker_from_starting_is_an_error(
    values: dict[str, str], sentence: str
) -> None:
    (found,) = findings_in(values, None)

    assert found["severity"] == "error"
    assert sentence in found["finding"]


def test_one_refusal_does_not_hide_another() -> None:
    values = {
        "listeners": "SSL://127.0.0.1:9093",
        "kbroker.advertise": "here",
        "num.partitions": "x",
    }

    assert [found["severity"] for found in findings_in(values, None)] == ["error"] * 3
