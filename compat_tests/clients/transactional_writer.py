"""A client that writes numbered records in transactions while brokers fail."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from compat_tests.clients.writers import DELIVERY_TIMEOUT_S, PARTITIONS, ThreadWriter

_RECORDS = 20  # of a transaction
_ABORTED = 4  # each fourth transaction
_CALL_TIMEOUT_S = 10.0
_TRANSACTION_TIMEOUT_S = 60


class TransactionalWriter(ThreadWriter):
    """confluent-kafka's transactional producer. What was not committed is in `aborted`."""

    is_idempotent = True

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        self.aborted: set[int] = set()
        self._rest_s = _RECORDS / records_per_s
        self._delivered: list[tuple[int, int, int]] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": topic,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_S * 1000,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 10_000,
                "request.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        super().__init__(topic, records_per_s)

    def _run(self) -> None:
        self._settled(self._producer.init_transactions)
        first = 0
        while not self._stop.is_set() and not self.errors:
            self._write(range(first, first + _RECORDS))
            first += _RECORDS
            time.sleep(self._rest_s)

    def _write(self, numbers: range) -> None:
        """One transaction. It is flushed before an abort: librdkafka may else end one that the
        coordinator does not know of yet.
        """
        self._producer.begin_transaction()
        self._delivered.clear()
        for number in numbers:
            text = str(number).encode()
            self._producer.produce(
                self.topic, text, text, partition=number % PARTITIONS, on_delivery=self._take
            )
        self._producer.flush(DELIVERY_TIMEOUT_S)
        is_aborted = numbers.start // _RECORDS % _ABORTED == _ABORTED - 1
        if not is_aborted and self._settled(self._producer.commit_transaction):
            for place in self._delivered:
                self.acknowledged.take(*place)
        else:
            self.aborted.update(numbers)
            if is_aborted:
                self._settled(self._producer.abort_transaction)

    def _take(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            place = message.partition(), message.offset(), int(message.value())
            self._delivered.append(place)

    def _settled(self, call: Callable[[float], object]) -> bool:
        """Whether it was done; False where the transaction was aborted instead."""
        while True:
            try:
                call(_CALL_TIMEOUT_S)
            except KafkaException as failure:
                error = failure.args[0]
                if error.retriable():
                    continue
                if error.txn_requires_abort():
                    self._settled(self._producer.abort_transaction)
                else:
                    self.errors.append(str(error))
                return False
            return True

    def finish(self) -> None:
        """Stop after the transaction at hand."""
        self._stop.set()
        self._thread.join(DELIVERY_TIMEOUT_S)
        if self._thread.is_alive():
            self.errors.append("a transaction did not end")
