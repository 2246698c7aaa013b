"""One data directory served by Apache Kafka, by kbroker, by Apache Kafka and by kbroker, under
clients that stay: offsets go on without a gap, an idempotent producer keeps its id and sequence, a
batch sent again to the next broker is known there, committed offsets stay.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.raw_connection import RawConnection
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE, free_port, jars
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.integration.client_reads import read_committed_offsets, read_rows

pytestmark = pytest.mark.java

PLAIN, NUMBERED = "plain", "numbered"
PARTITIONS = 3
GROUP = "g"
PER_TURN = 60
PRODUCER_ID = 500
PRODUCE, PRODUCE_VERSION = 0, 8
TIMEOUT_S = 40

# The tree that Apache Kafka comes back to does not know the leader epochs under which kbroker wrote:
# it goes on with a lower one, and forgets them. After a kill every log is recovered. The sequence that
# leaves a gap is refused with a word. On a slow machine Apache Kafka 4 begins to load groups before it
# has the partition, and begins again when it does.
EXPECTED_COMPLAINTS = re.compile(
    r"LeaderEpochCache .* New epoch entry|Recovering|processing append operation .*numbered-0"
    r"|Stopped loading records from __consumer_offsets"
)
HOWS = {"clean": signal.SIGTERM, "killed": signal.SIGKILL}


class Traveller:
    """Clients that go with the directory, and what they were told."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.delivered: list[tuple[int, int, bytes]] = []  # partition, offset, value
        self.turn = 0

    def create_topics(self) -> None:
        # A broker that has just started does not know its controller yet: ask again soon.
        admin = AdminClient(
            {"bootstrap.servers": self.bootstrap, "topic.metadata.refresh.interval.ms": 200}
        )
        topics = [NewTopic(PLAIN, PARTITIONS, 1), NewTopic(NUMBERED, 1, 1)]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT_S)

    def take_turn(self) -> None:
        """Write, send again what the broker before has acknowledged, commit; check every answer."""
        self._write()
        self._write_numbered()
        self._commit()
        self.turn += 1

    def check(self) -> None:
        """Everything written is there, once and in order."""
        places = [TopicPartition(PLAIN, p) for p in range(PARTITIONS)]
        rows = read_rows(self.bootstrap, places, "read_committed")
        for place in places:
            expected = [(o, v) for p, o, v in self.delivered if p == place.partition]
            assert [(row.offset, row.value) for row in rows[place]] == expected
            assert [offset for offset, _ in expected] == list(range(len(expected)))
        numbered = TopicPartition(NUMBERED, 0)
        found = read_rows(self.bootstrap, [numbered], "read_uncommitted")[numbered]
        assert [row.value for row in found] == [b"%d" % n for n in range(self.turn * 4)]
        assert [row.offset for row in found] == list(range(self.turn * 4))

    def _write(self) -> None:
        for number in range(PER_TURN):
            self.producer.produce(
                PLAIN,
                b"%d.%d" % (self.turn, number),
                partition=number % PARTITIONS,
                on_delivery=self._noted,
            )
        assert self.producer.flush(TIMEOUT_S) == 0
        assert len(self.delivered) == PER_TURN * (self.turn + 1)

    def _noted(self, error: object, message: object) -> None:
        assert error is None, error
        self.delivered.append((message.partition(), message.offset(), message.value()))

    def _write_numbered(self) -> None:
        """Batches of two with sequences of our own: the last one again, one too far, the next two."""
        next_sequence = self.turn * 4
        if self.turn:  # an unknown producer may begin anywhere
            again = next_sequence - 2
            known = {(ErrorCode.NONE, again), (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)}
            assert self._produce(again) in known
            error, _ = self._produce(next_sequence + 2)
            assert error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for sequence in (next_sequence, next_sequence + 2):
            assert self._produce(sequence) == (ErrorCode.NONE, sequence)

    def _produce(self, sequence: int) -> tuple[int, int]:
        """(error, base offset) of two records numbered from `sequence` on."""
        now_ms = int(time.time() * 1000)
        records = [Record(i, now_ms, None, b"%d" % (sequence + i)) for i in range(2)]
        options = BatchOptions(producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
        partition = {"index": 0, "records": build(records, options=options)}
        connection = RawConnection(self.bootstrap)
        answer = connection.call(
            PRODUCE,
            PRODUCE_VERSION,
            acks=-1,
            timeout=10_000,
            topic_data=[{"name": NUMBERED, "partition_data": [partition]}],
        )
        connection.close()
        told = answer.responses[0].partition_responses[0]
        return int(told.error_code), int(told.base_offset)

    def _commit(self) -> None:
        places = [TopicPartition(PLAIN, p) for p in range(PARTITIONS)]
        found = read_committed_offsets(self.bootstrap, GROUP, places)
        assert found == (dict.fromkeys(places, self.turn * 10) if self.turn else {})
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": GROUP})
        offsets = [ClientPartition(*place, (self.turn + 1) * 10) for place in places]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def travel(version: str, how: signal.Signals, home: Path) -> Traveller:
    """Four turns, each broker stopped by `how`; the clients after the last check."""
    port = free_port()
    data = home / "kafka" / "data"
    if version == ZOOKEEPER_LINE:
        apache = ApacheBroker(data, fresh_chroot(), port=port)
    else:
        apache = ApacheBroker(data, settings={"metadata.log.dir": str(data)}, port=port)
    here = BrokerProcess(data, ("--adopt",), port=port)
    traveller = Traveller(apache.bootstrap)
    for turn in range(4):
        broker = (apache, here)[turn % 2]
        broker.start()
        try:
            if not turn:
                traveller.create_topics()
            traveller.take_turn()
            traveller.check()
        finally:
            broker.stop(how)
        assert [c for c in apache.complaints() if not EXPECTED_COMPLAINTS.search(c)] == []
    assert here.log_text().count("Traceback") == 0
    return traveller


@pytest.fixture(params=[(ZOOKEEPER_LINE, "clean"), (NEWEST, "killed")], ids="-".join)
def way(request: pytest.FixtureRequest) -> tuple[str, signal.Signals]:
    version, how = request.param
    try:
        jars(version)
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))
    return version, HOWS[how]


def test_a_directory_goes_to_and_fro_under_clients_that_stay(
    way: tuple[str, signal.Signals], tmp_path: Path
) -> None:
    traveller = travel(*way, tmp_path)

    assert traveller.turn == 4
    assert len(traveller.delivered) == 4 * PER_TURN


def main() -> None:
    """All versions, all ways to stop: `python -m tests.integration.test_directory_round_trip`."""
    for version in (ZOOKEEPER_LINE, NEWEST):
        for name, how in HOWS.items():
            with tempfile.TemporaryDirectory() as home:
                traveller = travel(version, how, Path(home))
            sys.stdout.write(f"{version} {name}: {len(traveller.delivered)} records\n")


if __name__ == "__main__":
    main()
