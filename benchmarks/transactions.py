"""Transactions: how many a second, what verification costs a batch, how long readers of what is
committed wait, and how long the coordinator takes to load its log.

Every transaction is added to, written, and ended by requests one after the other, as clients do; an
end that is still being written is asked about again, which is part of its price.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence

from benchmarks import raw_client, transaction_log
from benchmarks.loads import Figures, Load, producer_performance
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient
from compat_tests.transactions.runner import warm_up
from compat_tests.wire.record_bytes import ONE, TRANSACTIONAL, Batch
from compat_tests.wire.wire_client import INIT_PRODUCER_ID, WireClient

_ADD_PARTITIONS, _END_TXN = 24, 26
_BUSY = frozenset({6, 14, 15, 16, 19, 51})  # asked again, as clients do
_SECONDS = 5.0
_WARM_UP = 20  # transactions of each producer before it is measured
_WARM_UP_S = 30.0  # of a broker that was just started
_TIMEOUT_MS = 60_000


class TransactionalProducer:
    """One connection, one transactional id, one partition."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        warm_up(bootstrap)
        self._client = WireClient(bootstrap)
        self._topic, self._name = topic, name
        self._sequence = 0
        while True:
            answer = self._client.call(
                INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout=_TIMEOUT_MS,
                producer_id=-1, producer_epoch=-1,
            )  # fmt: skip
            if answer.error_code.value not in _BUSY:
                break
        _check(answer.error_code.value)
        self._identity = {
            "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch
        }  # fmt: skip

    def begin(self) -> None:
        """The partition takes part."""
        fields = {f"v3_and_below_{name}": value for name, value in self._identity.items()}
        topics = [{"name": self._topic, "partitions": [0]}]
        while True:
            answer = self._client.call(
                _ADD_PARTITIONS, 3, **fields, v3_and_below_transactional_id=self._name,
                v3_and_below_topics=topics,
            )  # fmt: skip
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            if result.partition_error_code.value not in _BUSY:
                _check(result.partition_error_code.value)
                return

    def write(self, records: int) -> None:
        """One batch."""
        content = Batch(
            pairs=ONE * records, attributes=TRANSACTIONAL, base_sequence=self._sequence,
            **self._identity,
        ).to_bytes()  # fmt: skip
        while True:
            said = self._client.produce(self._topic, content, 9, transactional_id=self._name)
            code = int(said.partition(";")[0].split()[0])
            if code not in _BUSY:
                _check(code)
                self._sequence += records
                return

    def end(self, *, commits: bool = True) -> None:
        """Commit or abort."""
        answer = self._client.call(
            _END_TXN, 3, transactional_id=self._name, committed=commits, **self._identity
        )
        _check(answer.error_code.value)

    def transaction(self, records: int) -> None:
        """A whole one."""
        self.begin()
        self.write(records)
        self.end()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"the broker answered error {code}")


def transactions(records: int, producers: int) -> Load:
    """Transactions of one batch to one partition for each producer, for five seconds."""

    def load(broker: RunningBroker) -> Figures:
        names = [f"transactions-{producers}-{number}" for number in range(producers)]
        made = [_producer(broker, name) for name in names]
        for producer in made:
            for _ in range(_WARM_UP):
                producer.transaction(records)
        cpu = broker.cpu_s()
        took = _side_by_side(made, records, _SECONDS)
        cpu = broker.cpu_s() - cpu
        for producer in made:
            producer.close()
        return {
            "transactions_per_s": len(took) / _SECONDS,
            "p50_ms": statistics.median(took) * 1e3,
            "p99_ms": sorted(took)[len(took) * 99 // 100] * 1e3,
            "cpu_us_per_transaction": cpu / len(took) * 1e6,
        }

    return load


def warm(broker: RunningBroker) -> None:
    """Send transactions of 20 producers for half a minute: some 100,000 requests of their kinds."""
    made = [_producer(broker, f"warm-up-{number}") for number in range(20)]
    _side_by_side(made, 1, _WARM_UP_S)
    for producer in made:
        producer.close()


def _producer(broker: RunningBroker, topic: str) -> TransactionalProducer:
    raw_client.create_topic(broker.address, topic)
    return TransactionalProducer(broker.bootstrap, topic, f"{topic}-{time.monotonic_ns()}")


def _side_by_side(
    producers: Sequence[TransactionalProducer], records: int, seconds: float
) -> list[float]:
    """How long each transaction took, in seconds."""
    until, took = time.perf_counter() + seconds, []

    def work(producer: TransactionalProducer) -> None:
        while (begun := time.perf_counter()) < until:
            producer.transaction(records)
            took.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=work, args=(producer,)) for producer in producers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def java_transactional_producer(records: int = 200_000, record_bytes: int = 1_000) -> Load:
    """Kafka's own ProducerPerformance, which commits every 100 ms."""

    def load(broker: RunningBroker) -> Figures:
        raw_client.create_topic(broker.address, "perf-transactions")
        cpu = broker.cpu_s()
        rate = producer_performance(
            broker.bootstrap, "perf-transactions", records, record_bytes,
            "--transactional-id", f"perf-{time.monotonic_ns()}",
            "--transaction-duration-ms", "100",
        )  # fmt: skip
        return {"broker_cpu_s": broker.cpu_s() - cpu, "records_per_s": rate}

    return load


def committed_latency(transactions: int = 500) -> Load:
    """From the beginning of a transaction of one record until a Fetch of what is committed, which
    waits for it, has that record.
    """

    def load(broker: RunningBroker) -> Figures:
        topic = f"committed-{time.monotonic_ns()}"
        raw_client.create_topic(broker.address, topic)
        producer = TransactionalProducer(broker.bootstrap, topic, topic)
        producer.transaction(1)
        consumer = RawClient(broker.address)
        latencies = []
        for number in range(1, transactions + 1):
            fetch = raw_client.fetch_frame(topic, 2 * number, max_wait_ms=5_000, committed=True)
            consumer.send(fetch)
            time.sleep(0.001)  # the Fetch waits in the broker, as a real consumer's does
            begun = time.perf_counter()
            producer.transaction(1)
            consumer.receive()
            latencies.append((time.perf_counter() - begun) * 1000)
        producer.close()
        consumer.close()
        latencies = sorted(latencies[transactions // 10 :])
        return {
            "latency_p50_ms": statistics.median(latencies),
            "latency_p99_ms": latencies[int(len(latencies) * 0.99)],
        }

    return load


def verification(batches: int = 300) -> Load:
    """Compare the first batch of a transaction on a partition with the second, which is not
    verified: both wait for their answers.
    """

    def load(broker: RunningBroker) -> Figures:
        topic = f"verified-{time.monotonic_ns()}"
        raw_client.create_topic(broker.address, topic)
        producer = TransactionalProducer(broker.bootstrap, topic, topic)
        first, second = [], []
        for _ in range(batches):
            producer.begin()
            for took in (first, second):
                begun = time.perf_counter()
                producer.write(1)
                took.append((time.perf_counter() - begun) * 1e3)
            producer.end()
        producer.close()
        medians = statistics.median(first), statistics.median(second)
        return {
            "first_batch_p50_ms": medians[0],
            "second_batch_p50_ms": medians[1],
            "verification_ms": medians[0] - medians[1],
        }

    return load


ROWS: list[tuple[str, Load]] = [
    *(
        (f"{producers} producers, {records} records each", transactions(records, producers))
        for producers in (1, 20)
        for records in (1, 10, 100)
    ),
    ("java producer 200,000 x 1 KB, 100 ms each", java_transactional_producer()),
    ("until it is read as committed", committed_latency()),
    ("a batch with and without verification", verification()),
    ("a start over 1 M records of 10,000 ids", transaction_log.loading(ids=10_000)),
    ("a start over 1 M records of 200,000 ids", transaction_log.loading(ids=200_000)),
]
