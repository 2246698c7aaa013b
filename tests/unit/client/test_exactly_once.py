"""A writer goes on from the place that its group keeps, whatever became of its producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exactly_once import OnceOptions, write_once
from kbroker.client.record_sender import TransactionLostError
from kbroker.client.transactional_producer import NOTHING, Position, TransactionalProducer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

PLACE = TopicPartition("t", 0)


class RefusedError(Exception):
    """What was written is not wanted."""


class GaveUpError(Exception):
    """The writer has lost too many producer."""


class Group:
    """A group that keeps one place; notes what its producers do."""

    def __init__(self) -> None:
        self.lost_an_answer = False
        self.position = NOTHING
        self.done: list[str] = []

    def producer(self, _links: ClusterLinks, options: OnceOptions) -> Producer:
        assert (options.group, options.partition) == ("g", PLACE)
        self.done.append("asked")
        return Producer(self)


class Producer:
    """A producer whose transactions always succeed."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.place = group.position
        self.lost_an_answer = group.lost_an_answer

    def commit(self, place: Position) -> None:
        self.place = self.group.position = place
        self.group.done.append("commit")

    def abort(self) -> None:
        self.group.done.append("abort")


class Links:
    """Links of which one is busy."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def busy(self) -> list[str]:
        return ["link"]

    def lose(self, link: str) -> None:
        self.lost.append(link)


def run(
    group: Group,
    write_rest: Callable[[TransactionalProducer], Any],
    reading: Links | None = None,
) -> tuple[Any, Links, list[float]]:
    links = Links()
    options = OnceOptions(
        transactional_id="id",
        group="g",
        partition=PLACE,
        refusals=(RefusedError,),
        give_up=GaveUpError,
        kind=cast("Any", group.producer),
    )
    also = [cast("ClusterLinks", reading)] if reading is not None else []
    result = write_once(cast("ClusterLinks", links), options, write_rest, also)
    return result, links, links.slept


def lost() -> TransactionLostError:
    return TransactionLostError("id", ErrorCode.PRODUCER_FENCED)


def test_a_lost_transaction_is_written_again_from_the_place_of_the_group() -> None:
    group, reading = Group(), Links()
    places: list[int] = []

    def write(producer: TransactionalProducer) -> str:
        places.append(producer.place.offset)
        if len(places) == 1:
            producer.commit(Position(7))
            raise lost()
        return "all"

    result, links, slept = run(group, write, reading)

    assert (result, places) == ("all", [-1, 7])
    assert (links.lost, reading.lost, len(slept)) == (["link"], ["link"], 1)


def test_a_writer_that_loses_each_transaction_gives_up() -> None:
    group = Group()

    def write(_: TransactionalProducer) -> str:
        raise lost()

    with pytest.raises(GaveUpError, match=r"id is lost: PRODUCER_FENCED \(5 times one after"):
        run(group, write)
    assert group.done == ["asked"] * 5


def test_a_writer_that_comes_further_each_time_does_not_give_up() -> None:
    group = Group()

    def write(producer: TransactionalProducer) -> str:
        if producer.place.offset == 20:
            return "all"
        producer.commit(Position(producer.place.offset + 1))
        raise lost()

    assert run(group, write)[0] == "all"
    assert group.done.count("commit") == 21


def test_a_commit_whose_answer_was_lost_counts_as_one() -> None:
    group = Group()

    def write(producer: TransactionalProducer) -> str:
        if producer.place.offset == 20:
            return "all"
        group.position = Position(producer.place.offset + 1)
        raise lost()

    assert run(group, write)[0] == "all"


def test_what_is_refused_is_aborted() -> None:
    group = Group()

    def write(_: TransactionalProducer) -> str:
        raise RefusedError

    with pytest.raises(RefusedError):
        run(group, write)
    assert group.done == ["asked", "abort"]


def test_what_was_not_refused_is_left_to_whoever_goes_on() -> None:
    group = Group()

    def write(_: TransactionalProducer) -> str:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        run(group, write)
    assert group.done == ["asked"]


def test_the_rest_is_another_producers_after_an_answer_got_lost() -> None:
    group = Group()
    to_end: list[bool] = []

    def write(producer: TransactionalProducer) -> str | None:
        to_end.append(producer.lost_an_answer)
        group.lost_an_answer = True
        return "all" if len(to_end) == 2 else None

    result, links, slept = run(group, write)

    assert (result, to_end, links.lost, slept) == ("all", [False, True], ["link"], [])
