"""`kbroker health` says what is wrong with a cluster, and where more is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.broker import status
from kbroker.errors import Trouble


@pytest.mark.parametrize(
    ("controller", "said", "trouble"),
    [
        (0, "t-0 has no leader", Trouble.NO_LEADER),
        (-1, "the cluster has no controller", None),
    ],
)
def test_what_is_wrong_is_said_with_the_place_that_says_more(
    controller: int, said: str, trouble: Trouble | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = SimpleNamespace(partition_index=0, leader_id=-1)
    topic = SimpleNamespace(name="t", error_code=0, partitions=[partition])
    described = SimpleNamespace(controller_id=controller, topics=[topic])

    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Any]:
        yield SimpleNamespace(describe=lambda _names: described)

    monkeypatch.setattr(status, "cluster_links", connected)

    result = CliRunner().invoke(status.health, [], standalone_mode=False)

    assert isinstance(result.exception, CommandError)
    assert (result.exception.message, result.exception.trouble) == (said, trouble)
