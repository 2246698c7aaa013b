"""A consumer group (KIP-848) in one process, under one seed: members join, leave, vanish and come
back over a line that loses and delays, commit, also in transactions, topics come, grow, move and
go, settings change, and the coordinator's log refuses, delays and forgets to confirm, its broker is
killed, or another one takes its place.

    python -m tests.faults.group_simulation --seeds 1-3000
    python -m tests.faults.group_simulation --seeds 17 --trace

Everything follows from the seed. Laws: no partition has two owners; epochs
never go back, and none that is over is accepted; who is alive is not missed; what was answered is
stored; memory is what the log says; acknowledged offsets stay (group_commits); left alone, every
member reaches its target.

The last law has the limit of the protocol, which tells a member once what to read. If that answer
reaches nobody, the member asks by saying everything, as clients do after each error. But a copy of
a heartbeat that its client has given up, on a connection that it has closed, may come to the
coordinator after the one that the client sent instead, and take the news with its answer: Apache
Kafka 4.3.1 then says nothing more to the member, and so does kbroker. So whatever is on its way
arrives before the calm, and at its beginning all say everything.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any, NamedTuple

from kbroker.coordinator.consumer_group.patterns import load_library
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.errors import NO_ERROR, KafkaError
from kbroker.model import TopicPartition
from tests.fakes.brokers.group_broker import GroupBroker, OffsetsLog
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.group_clients import GROUP, Line
from tests.faults.group_cluster import Cluster, Coordinator, surviving
from tests.faults.group_commits import Commits
from tests.faults.group_laws import GroupLaws
from tests.faults.group_members import TOPICS, Members
from tests.faults.group_replicas import FickleReplicas
from tests.faults.seeded_histories import SeededHistories

_STEPS = 80
_TURNS = 4
_HEARTBEAT_MS = 5_000
# Rounds of a heartbeat each in which all is calm. The longest way to a target takes the more: a
# member that is gone is missed after a session (9); one that gives nothing up is fenced after its
# time to rebalance (5), and joins again (1); each of the three epochs waits for the interval of
# targets (2); then somebody gives up, says so, and another one is told and begins (4).
_CALM_ROUNDS = 20
_MOST_CALM_ROUNDS = 27
_EXPIRY = {"offsets_retention_minutes": 1, "offsets_retention_check_interval_ms": 20_000}


class Settings(NamedTuple):
    """The settings of the group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class GroupHistory:
    """One seed."""

    max_size = 5

    def __init__(self, seed: int, *, is_told: bool = False) -> None:
        self.random = Random(f"group/{seed}")
        self._is_told = is_told
        self.time = VirtualTime()
        self.settings = Settings(45_000, _HEARTBEAT_MS, self.random.choice((0, 1000)))
        self._large = self.random.choice((5, 10_000))
        self._large_write = 1 if seed % 4 == 3 else 1_000  # records are made beside the loop
        self._computing: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._made = 0
        self._is_calm = False
        self.line = Line(self.random)
        self.cluster = Cluster(self.random)
        self.laws = GroupLaws(self)
        self.members = Members(self)
        self.clients = self.members.clients
        self.commits = Commits(self)

    async def run(self) -> None:
        """Play it. AssertionError where a law is broken."""
        for name in TOPICS[:2]:
            self.cluster.grow(name, self.random.randint(1, 4))
        self._brokers = [self._start(), self._start()]
        self._lead(0, OffsetsLog())
        for _ in range(3):
            self.members.join()
            await self.turns()
        for _ in range(_STEPS):
            await self._step()
            self._check()
        await self._come_to_rest()

    def _check(self) -> None:
        self.commits.take_answers()
        self.laws.check()
        self.commits.check()

    # ---- brokers

    @property
    def broker(self) -> GroupBroker:
        """The coordinator's."""
        return self.coordinator.broker

    @property
    def shard(self) -> Any:
        return self.broker.groups.store.runtime.shard_for(GROUP)

    @property
    def is_loaded(self) -> bool:
        return self.broker.groups.store.runtime.status(GROUP) is NO_ERROR

    def _start(self) -> Coordinator:
        """A broker starts, and leads nothing yet."""
        replicas = FickleReplicas(self.random)
        broker = GroupBroker(
            lead=False,
            time=self.time,
            consumer_groups=ConsumerGroupServices(
                settings_of=lambda _: self.settings,
                max_size=self.max_size,
                assignors=("uniform", "range"),
                large_target=self._large,
                large_write=self._large_write,
                pattern_refresh_ms=600_000,
                match=_matches,
            ),
            **_EXPIRY,
        )
        self._made += 1
        broker.ids = self._made * 1_000_000
        broker.replicas.append_records = replicas.append_records  # type: ignore[method-assign]
        broker.replicas.logs = replicas.logs
        broker.groups.store.beside = broker.groups.store.making = self._beside
        started = Coordinator(self._made, broker, replicas)
        started.news.append(self.cluster.metadata())
        broker.groups.start()
        return started

    def _lead(self, index: int, log: OffsetsLog) -> None:
        self._leading = index
        self.coordinator = self._brokers[index]
        self.broker.lead(log)
        self.hear(self.coordinator)
        self.laws.sessions_begin_again()
        self.tell(f"broker {self.coordinator.number} with {len(log.data)} bytes")

    def hear(self, coordinator: Coordinator) -> None:
        gone = coordinator.hear()
        if gone and coordinator is self.coordinator:
            self.commits.gone(gone)

    async def _beside(self, work: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._computing.append((work, future))
        return await future

    def tell(self, line: str) -> None:
        if self._is_told:
            print(f"{self.time.monotonic_ms():>9.0f} {line}")

    async def turns(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    # ---- what happens

    async def _step(self) -> None:
        members = self.members
        happens = self.random.choices(
            (
                members.join,
                members.beat,
                self._wake,
                self._compute,
                self._pass_time,
                members.leave,
                members.vanish,
                members.resubscribe,
                members.lose_patience,
                members.arrive_late,
                members.read,
                self.commits.end_transaction,
                self._change_topic,
                self._change_settings,
                self._hear,
                self._administer,
                self._kill,
                self._move,
            ),
            (8, 60, 18, 8, 8, 4, 1.5, 3, 4, 4, 24, 4, 2.5, 0.7, 3, 1, 1, 1),
        )[0]
        happens()
        await self.turns()
        members.take_answers()
        await self.turns()

    def _wake(self) -> None:
        self.coordinator.replicas.wake()

    def _compute(self) -> None:
        if self._computing:
            work, future = self._computing.pop(0)
            if not future.done():
                if not self._is_calm and self.random.random() < 0.1:
                    future.set_exception(RuntimeError("it took too long"))
                else:
                    future.set_result(work())

    def _pass_time(self) -> None:
        self.time.advance(self.random.choice((500, 1_000, 3_000, 8_000, 22_000, 22_000, 70_000)))

    def _change_topic(self) -> None:
        name = self.random.choice(TOPICS)
        chance = self.random.random()
        if name in self.cluster.topics and chance < 0.35:
            self.tell(f"topic {name} goes")
            said = self.cluster.remove(name)
        elif name in self.cluster.topics and chance < 0.6:
            self.tell(f"topic {name} moves")
            said = self.cluster.move(name)
        else:
            counts = self.cluster.counts
            count = counts[name][1] + 1 if name in counts else 2
            self.tell(f"topic {name} has {count}")
            said = self.cluster.grow(name, count)
        for each in self._brokers:
            each.news.append(said)
        if self.random.random() < 0.7:
            self.hear(self.coordinator)

    def _change_settings(self) -> None:
        self.settings = Settings(
            self.random.choice((10_000, 45_000)), _HEARTBEAT_MS, self.random.choice((0, 1000, 6000))
        )
        self.laws.sessions_begin_again()
        self.tell(f"{self.settings}")

    def _hear(self) -> None:
        self.hear(self.random.choice(self._brokers))

    def _administer(self) -> None:
        """Delete the group, or offsets of it, as an administrator does."""
        groups, store = self.broker.groups, self.broker.groups.store
        found = store.find(GROUP)
        is_empty = found is None or found.is_empty
        if self.random.random() < 0.5:
            outcome = groups.delete_group(GROUP)
            if not is_empty:
                assert outcome != NO_ERROR, "a group with members was deleted"
            else:
                self.tell("deletes the group")
                self.commits.all_gone()
        else:
            name = TopicPartition(self.random.choice(TOPICS), 0)
            is_kept = not is_empty and found.follows(name.topic)
            try:
                outcome = groups.delete_offsets(GROUP, [name])
            except KafkaError:
                return
            if not is_kept:
                self.tell(f"deletes offsets of {name}")
                self.commits.gone([name])

    def _kill(self) -> None:
        """kill -9: who waits is not answered. The same process comes back with the whole log, or
        another one leads with what replicas have of it.
        """
        self.tell("kill -9")
        log = OffsetsLog(bytes(self.broker.log().data))
        if self.random.random() < 0.5:
            log = surviving(self.broker.log(), self.random)
        for client in self.clients:
            client.pending = None
            client.heard_nothing()
        self.line.late.clear()
        self.commits.killed()
        self.broker.groups.shutdown()
        self._brokers[self._leading] = self._start()
        self._lead(self._leading, log)

    def _move(self) -> None:
        """Another broker is elected, and has what was confirmed, and maybe more."""
        self.tell("another broker leads")
        log = surviving(self.broker.log(), self.random)
        self.coordinator.replicas.depose()
        self.broker.resign()
        self._lead(1 - self._leading, log)

    # ---- the end

    async def _come_to_rest(self) -> None:
        self.tell("calm")
        self._is_calm = True
        for each in self._brokers:
            each.replicas.is_calm = True
            self.hear(each)
        self.line.loss = self.line.lateness = 0.0
        await self._all_arrive()
        self.members.come_to_rest()
        await self._rest()
        self._grow_all_topics()
        await self._rest()
        assert not self.commits.transactions, "a transaction never ended"

    async def _rest(self) -> None:
        """Let everything go on until all members must have reached their targets."""
        for number in range(_MOST_CALM_ROUNDS):
            await self._calm_round()
            self._check()
            if number + 1 >= _CALM_ROUNDS and self.laws.is_at_rest():
                return
        self.laws.at_rest()

    def _grow_all_topics(self) -> None:
        """Topics grow, and those that are not there come."""
        for name in TOPICS:
            before = self.cluster.counts.get(name)
            self.broker.metadata.update(
                self.cluster.grow(name, 1 if before is None else before[1] + 1)
            )

    async def _all_arrive(self) -> None:
        while self.coordinator.replicas.wake():
            await self.turns()
        while self._computing:
            self._compute()
            await self.turns()
        while self.members.arrive_late():
            await self.turns()
        self.members.take_answers()

    async def _calm_round(self) -> None:
        await self._all_arrive()
        self.commits.end_transaction()
        await self.members.all_beat()
        self.time.advance(_HEARTBEAT_MS)
        await self.turns()


def _matches(
    patterns: Collection[str], names: Sequence[str], _most_bytes: int
) -> dict[str, frozenset[str]]:
    return {
        pattern: frozenset(name for name in names if re.fullmatch(pattern, name))
        for pattern in patterns
    }


async def _run(seed: int, is_told: bool) -> None:
    load_library()  # of patterns: the first one would wait for it, in the first history alone
    await GroupHistory(seed, is_told=is_told).run()


HISTORIES = SeededHistories("tests.faults.group_simulation", _run)

if __name__ == "__main__":
    sys.exit(HISTORIES.main())
