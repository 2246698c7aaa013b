"""Very many aborted transactions: nobody who reads what is committed sees one of them, and when the
log is cleaned their records, their markers and their index are gone.

    python -m compat_tests.transactions.aborts --count 10000

`--kind apache` does the same to Apache Kafka 4.3.1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.waiting import until
from compat_tests.transactions.copier_rounds import ALONE
from compat_tests.transactions.requests import ADD_PARTITIONS, END_TXN
from compat_tests.transactions.runner import warm_up
from compat_tests.wire.record_bytes import TRANSACTIONAL, Batch, batch, first_batch
from compat_tests.wire.wire_client import INIT_PRODUCER_ID, WireClient

TOPIC = "much-aborted"
_SEGMENT_BYTES = 1 << 20  # the least that newer brokers take
_WRITTEN_BYTES = 5 * _SEGMENT_BYTES
_PRODUCERS = 10
_ONE_COMMITTED_IN = 50
_ENDING = 51  # CONCURRENT_TRANSACTIONS: the one before is not over yet
_CLEANED_WITHIN_S, _BETWEEN_PASSES_S = 120.0, 0.5
_SETTINGS = ALONE | {"log.cleaner.backoff.ms": "200"}
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@dataclass
class _Producer:
    """A transactional producer whose every transaction is one batch."""

    client: WireClient
    name: str
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def begin(self) -> None:
        answer = self.client.call(
            INIT_PRODUCER_ID, 1, transactional_id=self.name, transaction_timeout=60_000
        )
        assert answer.error_code.value == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def write(self, pairs: tuple[tuple[bytes, bytes], ...], *, commits: bool) -> None:
        """One transaction, with retries where the one before is ending."""
        topics = [{"name": TOPIC, "partitions": [0]}]
        identity = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        owner = {f"v3_and_below_{field}": value for field, value in identity.items()}
        owner["v3_and_below_transactional_id"] = self.name

        def is_added() -> bool:
            answer = self.client.call(ADD_PARTITIONS, 3, **owner, v3_and_below_topics=topics)
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            assert result.partition_error_code.value in (0, _ENDING), result
            return bool(result.partition_error_code.value == 0)

        until(is_added, "the partition takes part")
        records = Batch(
            pairs=pairs, attributes=TRANSACTIONAL, producer_id=self.producer_id,
            producer_epoch=self.epoch, base_sequence=self.sequence,
        )  # fmt: skip
        until(
            lambda: self.client.produce(
                TOPIC, records.to_bytes(), 9, transactional_id=self.name
            ).startswith("0; "),
            "the batch is stored",
        )
        self.sequence += len(pairs)
        answer = self.client.call(
            END_TXN, 3, transactional_id=self.name, committed=commits, **identity
        )
        assert answer.error_code.value == 0, answer


def write_transactions(client: WireClient, count: int) -> set[bytes]:
    """As many aborted transactions, and some committed ones between them; the committed keys. The
    last one of each producer is committed: a cleaner keeps the last batch of each.
    """
    client.create_topic(TOPIC, configs=_CONFIGS)
    producers = [_Producer(client, f"aborting-{number}") for number in range(_PRODUCERS)]
    for producer in producers:
        producer.begin()
    value, committed = b"v" * (_WRITTEN_BYTES // count), set()
    for number in range(count):
        producer = producers[number % _PRODUCERS]
        producer.write(((b"%d" % (number % 97), value),), commits=False)
        if number % _ONE_COMMITTED_IN == 0 or number >= count - _PRODUCERS:
            key = b"kept %d" % number
            producer.write(((key, b"v"),), commits=True)
            committed.add(key)
    return committed


def end_segments(client: WireClient) -> None:
    """Complete the segments with what was written before; there is more to clean then."""
    for _ in range(2):
        answer = client.produce(TOPIC, batch(1, _SEGMENT_BYTES - 2_000))
        assert answer.startswith("0; "), answer


def visible_keys(bootstrap: str) -> set[bytes]:
    """The keys that a client sees which reads what is committed; those of `end_segments` are not
    among them.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "aborts", "isolation.level": "read_committed",
         "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = set()
    while True:
        for message in consumer.consume(1_000, timeout=1):
            error = message.error()
            if error is None:
                found.add(message.key())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return found - {b"k"}


def is_forgotten(client: WireClient, folder: Path) -> bool:
    """No answer to those who read what is committed names an aborted transaction, and no index."""
    offset, end = 0, int(client.list_offsets(TOPIC, -1).split("offset=")[1].split()[0])
    while offset < end:
        answer = client.fetch(TOPIC, offset, isolation_level=1, partition_max_bytes=1)
        if answer.aborted_transactions or not answer.records:
            return False
        last = first_batch(answer.records)
        offset = last["base_offset"] + last["last_offset_delta"] + 1
    return not sum(path.stat().st_size for path in folder.glob("*.txnindex"))


def run(directory: Path, count: int, kind: str = "kbroker") -> str:
    """Write, look, clean, look again; what was seen."""
    broker: BrokerProcess | ApacheBroker
    if kind == "kbroker":
        options = [part for item in _SETTINGS.items() for part in ("--override", "=".join(item))]
        broker = BrokerProcess(directory / "data", tuple(options))
    else:
        cleaned = {"log.cleaner.min.compaction.lag.ms": "0"}
        broker = ApacheBroker(directory / "data", settings=_SETTINGS | cleaned)
    broker.start()
    warm_up(broker.bootstrap)
    client = WireClient(broker.bootstrap)
    begin = time.monotonic()
    committed = write_transactions(client, count)
    written_s = time.monotonic() - begin
    assert visible_keys(broker.bootstrap) == committed
    assert not is_forgotten(client, broker.data / f"{TOPIC}-0")
    begin = time.monotonic()
    while not is_forgotten(client, broker.data / f"{TOPIC}-0"):
        assert time.monotonic() - begin < _CLEANED_WITHIN_S, "aborted transactions are still named"
        end_segments(client)
        time.sleep(_BETWEEN_PASSES_S)
    cleaned_s = time.monotonic() - begin
    assert visible_keys(broker.bootstrap) == committed
    client.close()
    broker.stop()
    broker.start()
    assert visible_keys(broker.bootstrap) == committed
    broker.stop()
    return (
        f"{count} transactions aborted and {len(committed)} committed in {written_s:.1f} s; none of "
        f"the first was visible, and no index named one {cleaned_s:.1f} s later"
    )


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.transactions.aborts")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kind", choices=("kbroker", "apache"), default="kbroker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aborts-") as directory:
        print(run(Path(directory), options.count, options.kind))


if __name__ == "__main__":
    main()
