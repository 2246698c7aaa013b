"""A member of a group says what the client library keeps to itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import group_records
from kbroker.cli.group_records import GroupRecords
from kbroker.client.client_error import ClientError

END = KeyboardInterrupt()


class Library:
    """A consumer whose polls find no record, and of whose topic the cluster tells what is listed."""

    def __init__(self, *is_there: bool) -> None:
        self._coordinator = SimpleNamespace(poll=lambda **_: None)
        self._is_there = deque(is_there)
        self._cluster = SimpleNamespace(config={}, partitions_for_topic=self._partitions)

    def subscribe(self, *_: Any, **__: Any) -> None:
        pass

    def assignment(self) -> set[str]:
        return {"t-0"}

    def end_offsets(self, _: Any) -> dict[str, int]:
        return {"t-0": 5}

    def position(self, _: Any) -> int:
        return 0

    def poll(self, **_: Any) -> dict[Any, Any]:
        if not self._is_there:
            raise END
        return {}

    def _partitions(self, _: str) -> set[int] | None:
        return {0} if self._is_there.popleft() else None


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[GroupRecords, list[str]]]:
    def make(*is_there: bool) -> tuple[GroupRecords, list[str]]:
        said: list[str] = []
        monkeypatch.setattr(group_records, "library_consumer", lambda **_: Library(*is_there))
        links = SimpleNamespace(bootstrap="h:1", describe=lambda _: None)
        monkeypatch.setattr(group_records, "ClusterLinks", lambda _: links)
        return GroupRecords("h:1", "g", ["t"], said.append, begins_at_end=False), said

    return make


def test_a_member_that_follows_says_once_that_a_topic_was_deleted_and_that_it_is_back(
    member: Callable[..., tuple[GroupRecords, list[str]]],
) -> None:
    group, said = member(False, True, False, False, True, True)

    with pytest.raises(KeyboardInterrupt):
        list(group.batches(follow=True))

    assert said == ["the topic t was deleted; waiting", "t can be read again"]


def test_a_member_that_does_not_follow_ends_where_a_topic_was_deleted(
    member: Callable[..., tuple[GroupRecords, list[str]]],
) -> None:
    group, _ = member(True, False)

    with pytest.raises(ClientError, match="the topic t was deleted"):
        list(group.batches(follow=False))
