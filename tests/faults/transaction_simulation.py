"""Whole clusters with transactional producers, in one process, under one seed: the clusters and the
troubles of `replication_simulation`, programs that write transactions and are fenced, out of time or
gone, programs that copy records once, readers of both kinds, and coordinators that end between any
two of their writes.

    python -m tests.faults.transaction_simulation --seeds 1-1000 --steps 30
    python -m tests.faults.transaction_simulation --seeds 17 --trace

Everything follows from the seed and the number of steps, as in `cluster_simulation`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from kbroker.features import TRANSACTION_VERSION
from kbroker.java_hash import java_hash
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.faults import cluster_simulation
from tests.faults.cluster_process import BrokerProcess, Machine
from tests.faults.cluster_simulation import Outcome, _soon
from tests.faults.replication_clients import Producer, ProducerKind
from tests.faults.replication_consumers import Consumer
from tests.faults.replication_simulation import ReplicationHistory
from tests.faults.transaction_ambush import Ambush, coordinates_transactions
from tests.faults.transaction_checks import Verdict, behind, strayed_coordinators, unsettled
from tests.faults.transaction_clients import Manner, TransactionalClient
from tests.faults.transaction_copiers import Copier, group_of
from tests.faults.transaction_ledger import TransactionLedger
from tests.faults.transaction_readers import CommittedReader

INTERNAL_PARTITIONS = 2
RIVAL_AFTER_S = (0.5, 2.0, 6.0)
REST_BETWEEN_S = (0.1, 1.0, 6.0)  # two runs of a program
COPIES = "copies"
SECOND_PROTOCOL = 2  # level of transaction.version
EXPIRY_MS = 10_000  # longer than any answer takes


class Lineage:
    """The runs of a program with one transactional id, one after the other, or two at a time."""

    def __init__(
        self,
        random: Random,
        make: Callable[[int], TransactionalClient],
        begin: Callable[[TransactionalClient], asyncio.Task[None]],
        ledger: TransactionLedger,
        rivals: float,
    ) -> None:
        """`rivals` is the chance that a run begins before the one before it has ended."""
        self.clients: list[TransactionalClient] = []
        self.is_over = False
        self.is_done = False
        self._random = random
        self._make = make
        self._begin = begin
        self._ledger = ledger
        self._rivals = rivals

    def __repr__(self) -> str:
        return f"lineage of {self.clients[-1:]}"

    async def run(self) -> None:
        """Begin one run after the other."""
        random = self._random
        while not self.is_over:
            client = self._make(len(self.clients) + 1)
            self.clients.append(client)
            task = self._begin(client)
            is_rival = random.random() < self._rivals
            timeout_s = random.choice(RIVAL_AFTER_S) * random.random() if is_rival else None
            await asyncio.wait([task], timeout=timeout_s)
            self._ledger.of_transactions.rivals += not client.is_done
            if client.is_done:
                await asyncio.sleep(random.choice(REST_BETWEEN_S) * random.random())
        self.is_done = True

    def end(self) -> None:
        """Let all runs end what they are at."""
        self.is_over = True
        for client in self.clients:
            client.is_over = True

    def waits(self) -> list[str]:
        """Runs that have not ended."""
        return [repr(client) for client in self.clients if not client.is_done]


class TransactionHistory(ReplicationHistory):
    """One seed."""

    new_ledger = TransactionLedger

    def __init__(self, seed: int, steps: int, **named: Any) -> None:
        super().__init__(seed, steps, **named)
        self.random = Random(f"transactions/{seed}")
        assert isinstance(self.ledger, TransactionLedger)
        self.transactions = self.ledger
        self.transactions.state_partition = partial(_home_of, TRANSACTION_STATE_TOPIC)
        self.transactions.group_partition = partial(_home_of, GROUP_METADATA_TOPIC)
        self.transactions.leads = self._leads
        self.lineages: list[Lineage] = []
        self.readers: list[CommittedReader] = []
        self.copied: list[tuple[TopicPartition, str]] = []  # source and transactional id

    # ---- the story

    def _build(self) -> None:
        super()._build()
        self.faults.favours = lambda p: p.controller.is_active or coordinates_transactions(p)
        self.ambush = Ambush(self.random, self.loop, self.faults, self.trouble, self.transactions)
        self.network.on_request = self.ambush.on_request

    def _settings(self, random: Random) -> dict[str, str]:
        self.transactions.ids_expire = random.random() < 0.25
        expiry_ms = EXPIRY_MS if self.transactions.ids_expire else 604_800_000
        factor = str(min(3, len(self.disks)))
        return super()._settings(random) | {
            "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
            "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": "2",
            "transaction.state.log.segment.bytes": random.choice(("1000", "100000")),
            "transactional.id.expiration.ms": str(expiry_ms),
            "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }

    def _topics(self) -> tuple[dict[str, int], dict[str, dict[str, str]]]:
        topics = {"a": self.random.randrange(1, 3), "b": 1, COPIES: 1}
        settings: dict[str, dict[str, str]] = {name: {} for name in topics}
        settings["b"] = {"segment.bytes": "600"}
        return topics, settings

    def _begin_clients(self) -> None:
        random = self.random
        data = [p for p in self.admin.partitions if p.topic != COPIES]
        for name in range(random.randrange(1, 4)):
            partitions = random.sample(data, random.randrange(1, len(data) + 1))
            self._begin_lineage(partial(self._writer, f"t{name}", partitions, self._manner()))
        for name in range(random.randrange(0, 3)):
            source, outputs = random.choice(data), [TopicPartition(COPIES, 0)]
            if random.random() < 0.5:
                outputs += [p for p in data if p != source][:1]
            self.copied.append((source, f"c{name}"))
            self._begin_lineage(
                partial(self._copier, f"c{name}", outputs, self._manner(), source=source)
            )
        self._new_readers()
        for number, partition in enumerate(self.admin.partitions):
            if random.random() < 0.4:
                self.consumers.append(Consumer(random.choice(self.machines), number, partition))
        if random.random() < 0.5:
            machine, partition = random.choice(self.machines), random.choice(data)
            self.producers.append(Producer(machine, "p1", partition, ProducerKind.IDEMPOTENT))
        for client in (*self.producers, *self.consumers, *self.readers, *self.lineages):
            self._begin_client(client)
        topics = [TRANSACTION_STATE_TOPIC, *[GROUP_METADATA_TOPIC][: len(self.copied)]]
        self.admin.partitions += [
            TopicPartition(topic, n)
            for topic in topics
            for n in range(INTERNAL_PARTITIONS if random.random() < 0.3 else 0)
        ]

    def _new_readers(self) -> list[CommittedReader]:
        """One of each partition, from its start on."""
        readers = [
            CommittedReader(self.random.choice(self.machines), len(self.readers) + n, partition)
            for n, partition in enumerate(self._data_partitions())
        ]
        self.readers += readers
        return readers

    def _manner(self) -> Manner:
        random = self.random
        return Manner(
            vanishes=random.choice((0.0, 0.04, 0.15)),
            dawdles=random.choice((0.0, 0.04, 0.15)),
            aborts=random.choice((0.0, 0.2, 0.5)),
            regrets=random.choice((0.0, 0.2)),
            is_stubborn=random.random() < 0.5,
        )

    def _begin_lineage(self, make: Callable[[int], TransactionalClient]) -> None:
        random = Random(self.random.getrandbits(64))
        rivals = random.choice((0.0, 0.3, 0.8))
        lineage = Lineage(random, make, self._begin_client, self.transactions, rivals)
        self.lineages.append(lineage)

    def _writer(
        self, name: str, partitions: list[TopicPartition], manner: Manner, number: int
    ) -> TransactionalClient:
        machine = self.random.choice(self.machines)
        manner = replace(manner, has_epochs=self._has_epochs())
        return TransactionalClient(machine, name, number, partitions, manner)

    def _copier(
        self,
        name: str,
        partitions: list[TopicPartition],
        manner: Manner,
        number: int,
        *,
        source: TopicPartition,
    ) -> TransactionalClient:
        machine = self.random.choice(self.machines)
        return Copier(
            machine,
            name,
            number,
            partitions,
            replace(manner, has_epochs=self._has_epochs()),
            source=source,
        )

    def _leads(self, partition: TopicPartition, broker_id: int | None) -> bool:
        """Whether a broker leads a partition in the epoch that the tree has."""
        process = self.processes.get(-1 if broker_id is None else broker_id)
        state = self.state_of(partition)
        if process is None or not process.is_listening or state is None:
            return False
        held = process.replicas.hosted.find(partition)
        leads = held is not None and held.is_leader and held.leader_epoch == state.leader_epoch
        return leads and state.leader == broker_id

    def _kinds(self) -> tuple[list[Callable[[], Any]], list[int]]:
        random = self.random
        kinds, weights = super()._kinds()
        # Transactions take their time, and have to get somewhere before the next fault.
        nothing: Callable[[], Any] = _soon(lambda: None)
        kinds, weights = [*kinds, nothing, _soon(self.ambush.lay)], [*weights, 15, 15]
        if random.random() < 0.6:
            kinds, weights = [*kinds, self._wish(self._raise_level)], [*weights, 3]
            if random.random() < 0.7:
                self.loop.start(self._raise_level(), self.machines[0].owner, "wish")
        return kinds, weights

    def _machine(self, broker_id: int) -> Machine:
        return replace(super()._machine(broker_id), has_features=True)

    # ---- the end

    def _heal(self) -> None:
        super()._heal()
        self.ambush.is_over = True

    def _end_clients(self) -> None:
        super()._end_clients()
        for lineage in self.lineages:
            lineage.end()
        for reader in self._new_readers():  # of all there is, where others have read what was new
            self._begin_client(reader)

    def _findings(self) -> list[str]:
        findings = super()._findings()
        if findings:
            return findings
        processes = list(self.processes.values())
        for lineage in self.lineages:
            if not lineage.is_over:
                return ["programs go on"]
            findings += lineage.waits()
        findings += unsettled(processes, self.transactions)
        return findings or list(behind(self.readers, processes))

    async def _raise_level(self) -> None:
        if not self._has_epochs():
            await self.admin.raise_level(TRANSACTION_VERSION, SECOND_PROTOCOL)

    def _has_epochs(self) -> bool:
        """Whether a client that asks a broker now hears of the second protocol."""
        running = self._running()
        if not running:
            return False
        levels = self.random.choice(running).metadata.finalized_features.levels
        return levels.get(TRANSACTION_VERSION, 0) >= SECOND_PROTOCOL

    async def _rest(self) -> None:
        await super()._rest()
        if not self.model.violations:
            self._judge(list(self.processes.values()))
        for reader in self.readers:
            reader.is_over = True

    def _judge(self, processes: list[BrokerProcess]) -> None:
        verdict = Verdict(processes, self.transactions, list(self._data_partitions()))
        counts = self.transactions.of_transactions
        counts.unsure = sum(not self.transactions.is_sure(t) for t in self.transactions.txns)
        for text in verdict.broken():
            self.model.violate("torn transaction", text)
        for text in verdict.misread(self.readers):
            self.model.violate("misread", text)
        for source, name in self.copied:
            for text in verdict.miscopied(source, group_of(name), name):
                self.model.violate("not once", text)
        for text in strayed_coordinators(processes):
            self.model.violate("strayed coordinator", text)

    def _data_partitions(self) -> list[TopicPartition]:
        return [p for p in self.admin.partitions if not p.topic.startswith("__")]

    def _count(self, counts: Counter[str]) -> None:
        super()._count(counts)
        source = self.transactions.of_transactions
        for name in source.__slots__:
            counts[f"txn {name}"] += getattr(source, name)


def _home_of(topic: str, key: str) -> TopicPartition:
    return TopicPartition(topic, abs(java_hash(key)) % INTERNAL_PARTITIONS)


def hunt(seeds: range, steps: int = cluster_simulation.STEPS, **named: Any) -> Outcome:
    """As `cluster_simulation.hunt`, of these histories."""
    return cluster_simulation.hunt(seeds, steps, history=TransactionHistory, **named)


if __name__ == "__main__":
    sys.exit(cluster_simulation.main(sys.argv[1:], TransactionHistory, __doc__))
