"""Records and the offsets of a group are committed together, whatever happens to their writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as LibraryPartition

from kbroker.client.cluster_features import update_features
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_sender import TransactionLostError
from kbroker.client.transactional_producer import (
    Position,
    TransactionalProducer,
    WriterIdentity,
)
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Record
from tests.fakes.running.forked_broker import Broker
from tests.integration.client_reads import settled_end

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
WHO = WriterIdentity(transactional_id="w", group="g", partition=PLACE, timeout_ms=30_000)
SETTINGS = {"num.partitions": 2, "log.retention.ms": -1}  # records have times of 1970


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", settings=SETTINGS) as made:
        yield made


@pytest.fixture
def links(broker: Broker) -> Iterator[ClusterLinks]:
    with closing(ClusterLinks(broker.bootstrap)) as made:
        made.ready_topic("t", creates=True)
        yield made


class Writer:
    """A producer with the id "w", and what it was told of its batches."""

    def __init__(self, links: ClusterLinks) -> None:
        self._links = links
        self.transactions = TransactionalProducer(links, WHO)
        self.places: list[tuple[int, int, int]] = []
        view = links.ready_topic("t", creates=True)
        assert view is not None
        self._sender = self.transactions.sender(
            view, on_written=lambda *place: self.places.append(place)
        )

    def write(self, *values: bytes, partition: int = 0) -> None:
        self.transactions.add_partitions([TopicPartition("t", partition)])
        self._sender.put(
            partition, [whole_body_of(Record(0, 1, None, value, ())) for value in values], 1
        )
        self._sender.complete(1)
        self._sender.send_until(lambda: self._sender.is_idle)

    def commit(self, offset: int) -> None:
        self.transactions.commit(Position(offset, f"at {offset}"))

    def committed(self) -> Position:
        """Ask the group, as the next writer does."""
        return TransactionalProducer(self._links, replace(WHO, transactional_id="next")).place


def visible(broker: Broker, *, while_open: bool = False) -> list[bytes]:
    """Read what is committed: now, with transactions open, or when none is left."""
    if not while_open:
        for place in (PLACE, OTHER):
            settled_end(broker.bootstrap, place)
    with closing(
        KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
    ) as consumer:
        places = [LibraryPartition(*PLACE), LibraryPartition(*OTHER)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found: list[bytes] = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(500).values():
                found += [record.value for record in records]
    return found


@pytest.mark.parametrize("level", [0, 2])
def test_what_is_committed_is_visible_with_its_offsets(
    broker: Broker, links: ClusterLinks, level: int
) -> None:
    if level:
        changes = {"transaction.version": (0, level)}
        update_features(links, changes, only_validates=False)
    writer = Writer(links)
    assert writer.committed() == Position(-1)

    writer.write(b"a", b"b")
    writer.write(b"c", partition=1)
    assert visible(broker, while_open=True) == []
    writer.commit(3)
    writer.write(b"d")
    writer.commit(4)

    assert sorted(visible(broker)) == [b"a", b"b", b"c", b"d"]
    assert writer.committed() == Position(4, "at 4")
    assert writer.places == [(0, 2, 0), (1, 1, 0), (0, 1, 3)]  # behind a marker


def test_what_was_not_committed_never_was(broker: Broker, links: ClusterLinks) -> None:
    first = Writer(links)
    first.write(b"a")
    first.commit(1)
    first.write(b"lost")

    second = Writer(links)
    assert second.committed() == Position(1, "at 1")
    second.write(b"aborted")
    second.transactions.abort()
    second.write(b"b")
    second.commit(2)

    assert visible(broker) == [b"a", b"b"]
    assert second.committed() == Position(2, "at 2")


def test_who_was_replaced_writes_and_commits_nothing(broker: Broker, links: ClusterLinks) -> None:
    first = Writer(links)
    first.write(b"a")
    Writer(links)

    with pytest.raises(TransactionLostError):
        first.write(b"b")
    with pytest.raises(TransactionLostError):
        first.commit(1)

    assert visible(broker) == []


def test_a_broker_may_be_away_between_any_two_steps(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        Broker(data=data, settings=SETTINGS) as broker,
        closing(ClusterLinks(broker.bootstrap)) as links,
    ):
        port = int(broker.bootstrap.rpartition(":")[2])
        writer = Writer(links)
        writer.write(b"a")
        broker.stop()

        with Broker(data=data, port=port, settings=SETTINGS) as again:
            writer.commit(1)
            again.stop()
        with Broker(data=data, port=port, settings=SETTINGS) as last:
            writer.write(b"b")
            writer.commit(2)

            assert visible(last) == [b"a", b"b"]
            assert writer.committed() == Position(2, "at 2")
