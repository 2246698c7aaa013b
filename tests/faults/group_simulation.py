"""A consumer group (KIP-848) in one process, under one seed: members join, leave, vanish and come
back over a line that loses and delays, commit, also in transactions, topics come, grow, move and
go, settings change, and the coordinator's log refuses, delays and forgets to confirm, its broker is
killed, or another one takes its place.

    python -m tests.faults.group_simulation --seeds 1-3000
    python -m tests.faults.group_simulation --seeds 17 --trace

Everything follows from the seed and the number of steps. Laws: no partition has two owners; epochs
never go back, and none that is over is accepted; who is alive is not missed; what was answered is
stored; memory is what the log says; acknowledged offsets stay (group_commits); left alone, every
member reaches its target.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from argparse import ArgumentParser
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

STEPS = 80
_TURNS = 4
_CALM_ROUNDS = 40
_HEARTBEAT_MS = 5_000
_EXPIRY = {"offsets_retention_minutes": 1, "offsets_retention_check_interval_ms": 20_000}


class Settings(NamedTuple):
    """The settings of the group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class GroupHistory:
    """One seed."""

    max_size = 5

    def __init__(self, seed: int, steps: int = STEPS, *, is_told: bool = False) -> None:
        self.random = Random(f"group/{seed}")
        self._steps, self._is_told = steps, is_told
        self.time = VirtualTime()
        self.settings = Settings(45_000, _HEARTBEAT_MS, self.random.choice((0, 1000)))
        self._large = self.random.choice((5, 10_000))
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
        for _ in range(self._steps):
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
                pattern_refresh_ms=600_000,
                match=_matches,
            ),
            **_EXPIRY,
        )
        self._made += 1
        broker.ids = self._made * 1_000_000
        broker.replicas.append_records = replicas.append_records  # type: ignore[method-assign]
        broker.replicas.logs = replicas.logs
        broker.groups.store.beside = self._beside
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
        self.members.come_to_rest()
        for number in range(_CALM_ROUNDS):
            if number == _CALM_ROUNDS // 2:
                self.laws.at_rest()
                self._grow_all_topics()
            await self._calm_round()
            self._check()
        self.laws.at_rest()
        assert not self.commits.transactions, "a transaction never ended"

    def _grow_all_topics(self) -> None:
        """Topics grow, and those that are not there come."""
        for name in TOPICS:
            before = self.cluster.counts.get(name)
            self.broker.metadata.update(
                self.cluster.grow(name, 1 if before is None else before[1] + 1)
            )

    async def _calm_round(self) -> None:
        while self.coordinator.replicas.wake():
            await self.turns()
        while self._computing:
            self._compute()
            await self.turns()
        while self.members.arrive_late():
            await self.turns()
        self.members.take_answers()
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


def play(seed: int, steps: int = STEPS, *, is_told: bool = False) -> str | None:
    """Return what is wrong with a seed."""
    load_library()  # of patterns: the first one would wait for it, in the first history alone
    history = GroupHistory(seed, steps, is_told=is_told)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(history.run())
    except AssertionError as error:
        if is_told:
            raise
        return str(error) or repr(error)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    return None


def hunt(seeds: range, *, stops: bool = False) -> list[str]:
    """Return what is wrong with these seeds, of the first one alone if it `stops` there."""
    violations = []
    for seed in seeds:
        found = play(seed)
        if found is not None:
            violations.append(f"seed {seed}: {found.splitlines()[0]}")
            if stops:
                break
    return violations


def main() -> int:
    """Hunt, or follow one seed."""
    parser = ArgumentParser(prog="python -m tests.faults.group_simulation")
    parser.add_argument("--seeds", default="1-100")
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    first, _, last = given.seeds.partition("-")
    if given.trace:
        play(int(first), is_told=True)
        return 0
    violations = hunt(range(int(first), int(last or first) + 1))
    print(*violations, f"{len(violations)} violations", sep="\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
