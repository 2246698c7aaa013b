"""Ambushes on coordinators of a simulated cluster: between two of its writes a broker ends, or is
replaced while what it has sent is still under way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.protocol.api_keys import ApiKey
from tests.fakes.running.virtual_loop import VirtualLoop, nobody
from tests.faults.cluster_faults import ClusterFaults
from tests.faults.cluster_process import BrokerProcess
from tests.faults.replication_faults import ReplicationFaults
from tests.faults.replication_network import Link
from tests.faults.transaction_ledger import TransactionLedger

WRITES_MAX = 4
MARKERS_HELD = 0.25  # of the ambushes wait for markers that set out
SUCCESSOR_LOOK_S = 0.02
SUCCESSOR_LOOKS = 500
SUCCESSOR_LIFE_S = (0.1, 0.4, 1.5)
NOWHERE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
DELAYS_S = (0.0, 0.0, 0.001, 0.005, 0.02, 0.3)


def coordinates_transactions(process: BrokerProcess) -> bool:
    """Whether a broker leads a partition of `__transaction_state`."""
    return any(
        partition.is_leader and partition.topic_partition.topic == TRANSACTION_STATE_TOPIC
        for partition in process.replicas.hosted
    )


def _leads(process: BrokerProcess, partition: TopicPartition) -> bool:
    held = process.replicas.hosted.find(partition)
    return held is not None and held.is_leader


class Ambush:
    """Waits for a coordinator's write, and strikes its broker right after it, or a moment later."""

    def __init__(
        self,
        random: Random,
        loop: VirtualLoop,
        faults: ClusterFaults,
        trouble: ReplicationFaults,
        ledger: TransactionLedger,
    ) -> None:
        self.is_over = False
        self._senders: list[BrokerProcess] = []  # whose next markers are held
        self._random = random
        self._loop = loop
        self._faults = faults
        self._trouble = trouble
        self._ledger = ledger

    def lay(self) -> None:
        """Choose a coordinator and one of its next writes."""
        running = [
            process
            for process in self._faults.running()
            if process.is_listening and coordinates_transactions(process)
        ]
        if not running:
            return
        process = self._random.choice(running)
        if self._random.random() < MARKERS_HELD:
            self._senders.append(process)
            return
        faults = (
            self._faults.kill_one,
            self._faults.kill_one,
            self._trouble.power_off,
            self._faults.pause_one,
            self._faults.expire_one,
            self._trouble.isolate,
            self._kill_two,
            self._kill_two,
        )
        self._watch(process, self._random.randrange(1, WRITES_MAX + 1), self._random.choice(faults))

    def _watch(
        self, process: BrokerProcess, writes: int, fault: Callable[[BrokerProcess], None]
    ) -> None:
        """Count the batches that coordinators append: their records, and markers."""
        appends = process.replicas.appends
        original = appends.append_records
        left = writes

        def append_records(*args: Any, **named: Any) -> Any:
            nonlocal left
            is_coordinator = AppendOrigin.COORDINATOR in (*args, *named.values())
            left -= is_coordinator
            if is_coordinator and left == 0:
                delay_s = self._random.choice(DELAYS_S)
                self._loop.call_later(delay_s, self._strike, process, fault, context=nobody())
            return original(*args, **named)

        vars(appends)["append_records"] = append_records

    def on_request(self, link: Link, api_key: int) -> None:
        """Hold the markers of a coordinator that was chosen, and let another replace it."""
        if api_key != ApiKey.WRITE_TXN_MARKERS:
            return
        for process in [p for p in self._senders if p.broker_id == link[0]]:
            self._senders.remove(process)
            self._strike(process, self._trouble.isolate)

    # ---- a coordinator and its successor

    def _kill_two(self, process: BrokerProcess) -> None:
        """Kill a coordinator, and then its successor before others have what that one has."""
        led = [
            partition.topic_partition
            for partition in process.replicas.hosted
            if partition.is_leader and partition.topic_partition.topic == TRANSACTION_STATE_TOPIC
        ]
        self._faults.kill_one(process)
        cuts = self._trouble.part_brokers(process.broker_id)
        self._await_successor(self._random.choice(led or [NOWHERE]), cuts, SUCCESSOR_LOOKS)

    def _await_successor(
        self, partition: TopicPartition, end_cuts: Callable[[], None], looks: int
    ) -> None:
        found = [p for p in self._faults.running() if p.is_listening and _leads(p, partition)]
        if found and not self.is_over:
            delay_s = self._random.choice(SUCCESSOR_LIFE_S) * self._random.random()
            self._later(delay_s, partial(self._end_successor, found[0], end_cuts))
        elif looks and not self.is_over:
            again = partial(self._await_successor, partition, end_cuts, looks - 1)
            self._later(SUCCESSOR_LOOK_S, again)
        else:
            end_cuts()

    def _end_successor(self, process: BrokerProcess, end_cuts: Callable[[], None]) -> None:
        if not self.is_over and process in self._faults.running():
            self._faults.kill_one(process)
        end_cuts()

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, action, context=nobody())

    def _strike(self, process: BrokerProcess, fault: Callable[[BrokerProcess], None]) -> None:
        if self.is_over or process not in self._faults.running():
            return
        self._ledger.of_transactions.ambushes += 1
        self._ledger.model.say(f"{process}: ambushed")
        fault(process)
