"""A member of a group says what the client library keeps to itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, KafkaTimeoutError
from kafka.structs import TopicPartition as LibraryPartition

from kbroker.cli.records import group_records
from kbroker.cli.records.group_records import GroupRecords, Habits
from kbroker.client.client_error import ClientError
from kbroker.errors import Trouble

END = KeyboardInterrupt()


PLACE = LibraryPartition("t", 0)
FOUND = SimpleNamespace(offset=4, timestamp=0, key=None, value=b"v", headers=())


class Library:
    """A consumer whose polls find no record, and of whose topic the cluster tells what is listed."""

    begins_at: int = 0
    committed_offset: int | None = 2
    has_joined = True
    troubles: tuple[Exception, ...] = ()
    found: tuple[Any, ...] = ()
    coordinator_is_away = False
    commits: ClassVar[list[dict[LibraryPartition, int]]] = []

    def __init__(self, *is_there: bool) -> None:
        self._coordinator = SimpleNamespace(
            poll=lambda **_: None, coordinator_unknown=lambda: self.coordinator_is_away
        )
        self._troubles = deque(self.troubles)
        self._is_there = deque(is_there)
        self._cluster = SimpleNamespace(config={}, partitions_for_topic=self._partitions)

    def subscribe(self, *_: Any, **__: Any) -> None:
        pass

    def assignment(self) -> set[LibraryPartition]:
        return {PLACE} if self.has_joined else set()

    def end_offsets(self, _: Any) -> dict[LibraryPartition, int]:
        return {PLACE: 5}

    def beginning_offsets(self, places: Any, **_: Any) -> dict[LibraryPartition, int]:
        return dict.fromkeys(places, self.begins_at)

    def committed(self, _: Any, **__: Any) -> int | None:
        return self.committed_offset

    def position(self, _: Any) -> int:
        return 0

    def poll(self, **_: Any) -> dict[Any, Any]:
        if self._troubles:
            raise self._troubles.popleft()
        if not self._is_there:
            raise END
        return {PLACE: list(self.found)} if self.found else {}

    def commit_async(self, offsets: Any, callback: Any) -> None:
        assert callback is not None, "the library's own one prints"
        self.commits.append({place: kept.offset for place, kept in offsets.items()})

    def _partitions(self, _: str) -> set[int] | None:
        return {0} if self._is_there.popleft() else None


leaders: deque[int] = deque()  # of the group's partition of offsets, when it is looked at


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[GroupRecords, list[str]]]:
    def make(*is_there: bool) -> tuple[GroupRecords, list[str]]:
        said: list[str] = []
        monkeypatch.setattr(group_records, "library_consumer", lambda *_, **__: Library(*is_there))
        links = SimpleNamespace(
            bootstrap="h:1",
            describe=lambda _: None,
            topic=lambda _: SimpleNamespace(leaders={0: leaders.popleft()}),
        )
        monkeypatch.setattr(group_records, "ClusterLinks", lambda _: links)
        return GroupRecords("h:1", "g", ["t"], said.append, Habits(), said.append), said

    return make


def test_a_member_that_follows_says_once_that_a_topic_was_deleted_and_that_it_is_back(
    member: Callable[..., tuple[GroupRecords, list[str]]],
) -> None:
    group, said = member(False, True, False, False, True, True)

    with pytest.raises(KeyboardInterrupt):
        list(group.batches(follow=True))

    assert said == ["the topic t was deleted; waiting", "t can be read again"]


@pytest.mark.parametrize(
    ("follow", "trouble", "end"),
    [
        (True, KafkaTimeoutError("metadata"), KeyboardInterrupt),
        (True, KafkaConnectionError("refused"), KeyboardInterrupt),
        (True, GroupAuthorizationFailedError("g"), GroupAuthorizationFailedError),
        (False, KafkaTimeoutError("metadata"), KafkaTimeoutError),
    ],
)
def test_a_member_that_follows_goes_on_where_the_library_gives_up_on_the_brokers(
    follow: bool,
    trouble: Exception,
    end: type[BaseException],
    member: Callable[..., tuple[GroupRecords, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Library, "troubles", (trouble,))
    group, _ = member(True, True)

    with pytest.raises(end):
        list(group.batches(follow=follow))


def test_a_member_that_does_not_follow_ends_where_a_topic_was_deleted(
    member: Callable[..., tuple[GroupRecords, list[str]]],
) -> None:
    group, _ = member(True, False)

    with pytest.raises(ClientError, match="the topic t was deleted"):
        list(group.batches(follow=False))


@pytest.mark.parametrize(("committed", "is_told"), [(2, True), (7, False), (None, False)])
def test_records_that_are_gone_before_the_group_read_them_are_told_once(
    committed: int | None,
    is_told: bool,
    member: Callable[..., tuple[GroupRecords, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Library, "begins_at", 7)
    monkeypatch.setattr(Library, "committed_offset", committed)
    consumer, said = member(True, True, True)

    with pytest.raises(KeyboardInterrupt):
        list(consumer.batches(follow=True))

    gone = "offset 2 of t-0, where the group is, is no longer there: its records begin at 7"
    assert said == [gone] * is_told


@pytest.mark.parametrize(
    ("follow", "is_away", "commits"),
    [
        (True, False, [{PLACE: 5}, {PLACE: 5}]),
        (False, False, []),
        (True, True, []),
    ],
)
def test_a_member_that_follows_commits_what_was_taken_from_it_every_5_s(
    follow: bool,
    is_away: bool,
    commits: list[dict[LibraryPartition, int]],
    member: Callable[..., tuple[GroupRecords, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter(range(0, 1000, 2))
    made: list[dict[LibraryPartition, int]] = []
    monkeypatch.setattr(Library, "commits", made)
    monkeypatch.setattr(Library, "found", (FOUND,))
    monkeypatch.setattr(Library, "coordinator_is_away", is_away)
    monkeypatch.setattr(group_records.time, "monotonic", lambda: next(seconds))
    group, _ = member(*[True] * 6)

    with pytest.raises(KeyboardInterrupt):
        list(group.batches(follow=follow))

    assert made == commits


def test_a_member_whose_group_has_no_coordinator_says_so_and_waits_for_it(
    member: Callable[..., tuple[GroupRecords, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Library, "has_joined", False)
    monkeypatch.setattr(group_records.time, "sleep", lambda _: None)
    leaders.extend([-1, -1, 3, 3])
    consumer, said = member(True)

    with pytest.raises(KeyboardInterrupt):
        list(consumer.batches(follow=True))

    leaders.clear()
    assert said == [
        "group g has no coordinator now: __consumer_offsets-0, where its offsets are, has no "
        "leader; waiting",
        "group g has a coordinator again",
    ]


def test_a_member_that_does_not_follow_gives_up_on_a_coordinator(
    member: Callable[..., tuple[GroupRecords, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Library, "has_joined", False)
    moments = iter(range(0, 1000, 4))
    monkeypatch.setattr(group_records.time, "sleep", lambda _: None)
    monkeypatch.setattr(group_records.time, "monotonic", lambda: next(moments))
    leaders.extend([-1] * 5)
    consumer, _ = member(True)

    with pytest.raises(ClientError, match="group g has no coordinator now") as error:
        list(consumer.batches(follow=False))
    leaders.clear()
    assert error.value.trouble is Trouble.NO_LEADER
