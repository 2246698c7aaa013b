"""A writer goes on from the place that its group keeps, whatever became of its transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exactly_once import OnceOptions, Transactions, write_once
from kbroker.client.record_sender import TransactionLostError
from kbroker.client.transactional_producer import NOTHING, Position
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

PLACE = TopicPartition("t", 0)


class RefusedError(Exception):
    """What was written is not wanted."""


class GaveUpError(Exception):
    """The writer has lost too many transactions."""


class Group:
    """A producer of a group that keeps one place; notes what was done."""

    producer = None

    def __init__(self) -> None:
        self.lost_an_answer = False
        self.position = NOTHING
        self.done: list[str] = []

    def add_partitions(self, partitions: Iterable[TopicPartition], /) -> None:
        self.done.append("add")

    def commit(self, group: str, offsets: Mapping[TopicPartition, Position], /) -> None:
        assert group == "g"
        self.position = offsets[PLACE]
        self.done.append("commit")

    def abort(self) -> None:
        self.done.append("abort")

    def committed(self, group: str, partition: TopicPartition, /) -> Position:
        assert (group, partition) == ("g", PLACE)
        self.done.append("asked")
        return self.position


class Links:
    """Links of which one is busy."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    def busy(self) -> list[str]:
        return ["link"]

    def lose(self, link: str) -> None:
        self.lost.append(link)


def run(
    group: Group, write_rest: Callable[[Transactions], Any], reading: Links | None = None
) -> tuple[Any, Links, list[float]]:
    links, slept = Links(), list[float]()
    options = OnceOptions(
        transactional_id="id",
        group="g",
        partition=PLACE,
        refusals=(RefusedError,),
        give_up=GaveUpError,
        stand_in=cast("Any", group),
    )
    also = [cast("ClusterLinks", reading)] if reading is not None else []
    result = write_once(cast("ClusterLinks", links), options, write_rest, also, sleep=slept.append)
    return result, links, slept


def lost() -> TransactionLostError:
    return TransactionLostError("id", ErrorCode.PRODUCER_FENCED)


def test_a_lost_transaction_is_written_again_from_the_place_of_the_group() -> None:
    group, reading = Group(), Links()
    places: list[int] = []

    def write(transactions: Transactions) -> str:
        places.append(transactions.place.offset)
        if len(places) == 1:
            transactions.commit(Position(7))
            raise lost()
        return "all"

    result, links, slept = run(group, write, reading)

    assert (result, places) == ("all", [-1, 7])
    assert (links.lost, reading.lost, len(slept)) == (["link"], ["link"], 1)


def test_a_writer_that_loses_each_transaction_gives_up() -> None:
    group = Group()

    def write(_: Transactions) -> str:
        raise lost()

    with pytest.raises(GaveUpError, match=r"id is lost: PRODUCER_FENCED \(5 times one after"):
        run(group, write)
    assert group.done == ["asked"] * 5


def test_a_writer_that_comes_further_each_time_does_not_give_up() -> None:
    group = Group()

    def write(transactions: Transactions) -> str:
        if transactions.place.offset == 20:
            return "all"
        transactions.commit(Position(transactions.place.offset + 1))
        raise lost()

    assert run(group, write)[0] == "all"
    assert group.done.count("commit") == 21


def test_a_commit_whose_answer_was_lost_counts_as_one() -> None:
    group = Group()

    def write(transactions: Transactions) -> str:
        if transactions.place.offset == 20:
            return "all"
        group.position = Position(transactions.place.offset + 1)
        raise lost()

    assert run(group, write)[0] == "all"


def test_what_is_refused_is_aborted() -> None:
    group = Group()

    def write(_: Transactions) -> str:
        raise RefusedError

    with pytest.raises(RefusedError):
        run(group, write)
    assert group.done == ["asked", "abort"]


def test_what_was_not_refused_is_left_to_whoever_goes_on() -> None:
    group = Group()

    def write(_: Transactions) -> str:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        run(group, write)
    assert group.done == ["asked"]


def test_the_rest_is_another_producers_after_an_answer_got_lost() -> None:
    group = Group()
    to_end: list[bool] = []

    def write(transactions: Transactions) -> str | None:
        to_end.append(transactions.is_to_end)
        group.lost_an_answer = True
        return "all" if len(to_end) == 2 else None

    result, links, slept = run(group, write)

    assert (result, to_end, links.lost, slept) == ("all", [False, True], ["link"], [])
