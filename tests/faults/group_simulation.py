"""A consumer group (KIP-848) in one process, under one seed: members join, leave, vanish and come
back over a line that loses, topics come, grow and go, and the coordinator's log refuses, delays and
forgets to confirm, or its broker is killed.

    python -m tests.faults.group_simulation --seeds 1-3000
    python -m tests.faults.group_simulation --seeds 17 --trace

Everything follows from the seed and the number of steps. Laws: no partition has two owners; epochs
never go back; what was answered is in the log; memory is what a load of the log comes to; left
alone, every member reaches its target.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from argparse import ArgumentParser
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.fakes.brokers.group_broker import BROKER_ID, GroupBroker, OffsetsLog
from tests.faults.group_clients import Client, Line
from tests.faults.group_laws import GroupLaws
from tests.faults.group_replicas import FickleReplicas

STEPS = 80
_TURNS = 4
_CALM_ROUNDS = 40
_HEARTBEAT_MS = 5_000
_TOPICS = ("a", "b", "c")
Placed = UpdateMetadataRequest.UpdateMetadataPartitionState


class Settings(NamedTuple):
    """The settings of the group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class GroupHistory:
    """One seed."""

    def __init__(self, seed: int, steps: int = STEPS, *, is_told: bool = False) -> None:
        self.random = Random(f"group/{seed}")
        self._steps, self._is_told = steps, is_told
        self.line = Line(self.random)
        self.clients: list[Client] = []
        self.topics: dict[str, tuple[uuid.UUID, int]] = {}
        self.interval_ms = self.random.choice((0, 1000))
        self.large = self.random.choice((5, 10_000))
        self._computing: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._made = 0
        self.laws = GroupLaws(self)

    async def run(self) -> None:
        """Play it. AssertionError where a law is broken."""
        self.broker = self._broker(OffsetsLog())
        for name in _TOPICS[:2]:
            self._set_topic(name, self.random.randint(1, 4))
        for _ in range(3):
            self._join()
            await self.turns()
        for _ in range(self._steps):
            await self._step()
            self.laws.check()
        await self._come_to_rest()

    # ---- the world

    def _broker(self, log: OffsetsLog) -> GroupBroker:
        settings = Settings(45_000, _HEARTBEAT_MS, self.interval_ms)
        self.replicas = FickleReplicas(self.random)
        broker = GroupBroker(
            lead=False,
            consumer_groups=ConsumerGroupServices(
                settings_of=lambda _: settings,
                max_size=5,
                assignors=("uniform", "range"),
                large_target=self.large,
            ),
        )
        self._made += 1
        broker.ids = self._made * 1_000_000
        broker.replicas.append_records = self.replicas.append_records  # type: ignore[method-assign]
        broker.replicas.logs = self.replicas.logs
        broker.groups.store.beside = self._beside
        broker.lead(log)
        if self.topics:
            broker.metadata.update(self._metadata())
        self._tell(f"broker {self._made} with {len(log.data)} bytes")
        return broker

    async def _beside(self, work: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._computing.append((work, future))
        return await future

    def _set_topic(self, name: str, count: int) -> None:
        topic_id = self.topics[name][0] if name in self.topics else None
        self.topics[name] = (topic_id or uuid.UUID(int=self.random.getrandbits(120) + 1), count)
        self.broker.metadata.update(self._metadata())

    def _metadata(self, deleted: str | None = None) -> UpdateMetadataRequest:
        leader_of = dict.fromkeys(self.topics, BROKER_ID)
        if deleted is not None:
            leader_of[deleted] = -2
        return UpdateMetadataRequest(
            controller_id=BROKER_ID,
            live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(id=BROKER_ID)],
            topic_states=[
                UpdateMetadataRequest.UpdateMetadataTopicState(
                    topic_name=name,
                    topic_id=topic_id,
                    partition_states=[
                        Placed(
                            topic_name=name,
                            partition_index=index,
                            leader=leader_of[name],
                            replicas=[BROKER_ID],
                        )
                        for index in range(count)
                    ],
                )
                for name, (topic_id, count) in self.topics.items()
            ],
        )

    def _tell(self, line: str) -> None:
        if self._is_told:
            print(f"{self.broker.time.monotonic_ms() if self._made > 1 else 0:>9.0f} {line}")

    async def turns(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    # ---- what happens

    async def _step(self) -> None:
        happens = self.random.choices(
            (
                self._join,
                self._beat,
                self._wake,
                self._compute,
                self._pass_time,
                self._leave,
                self._vanish,
                self._resubscribe,
                self._change_topic,
                self._kill,
                self._lose_patience,
            ),
            (8, 60, 18, 8, 8, 4, 1.5, 3, 2, 1, 4),
        )[0]
        happens()
        await self.turns()
        self._take_answers()
        await self.turns()

    def _join(self) -> None:
        if len([each for each in self.clients if not each.is_gone]) >= 6:
            return
        live = {each.instance_id for each in self.clients if not each.is_gone}
        instance_id = self.random.choice((None, "i1", "i2"))
        if instance_id in live:
            instance_id = None
        topics = tuple(sorted(self.random.sample(_TOPICS, self.random.randint(1, 2))))
        self._made += 1
        member_id = f"m{self._made}"
        client = Client(f"c{self._made}", instance_id, topics, member_id)
        self.clients.append(client)
        self._tell(f"{client.name} comes as {member_id}, {instance_id}, for {topics}")
        self._send(client)

    def _someone(self) -> Client | None:
        free = [each for each in self.clients if not each.is_gone and each.pending is None]
        return self.random.choice(free) if free else None

    def _beat(self) -> None:
        client = self._someone()
        if client is not None:
            if self.random.random() < 0.7:
                client.give_up()
                if self.random.random() < 0.7:
                    client.begin()
            self._send(client)

    def _send(self, client: Client) -> None:
        request = client.request()
        client.pending = self.line.send(self.broker.groups.consumer_groups, client, request)

    def _take_answers(self) -> None:
        for client in self.clients:
            pending = client.pending
            if pending is None or not pending.done():
                continue
            client.pending = None
            if client.is_gone:
                continue
            if self.line.loses_answer():
                client.says_all = True
                self._tell(f"{client.name}: answer lost")
                continue
            response = pending.result()
            self._tell(f"{client.name} in {client.epoch}: {_short(response)}")
            if response.error_code == 0:
                self.laws.answered(client, response)
            client.take(response)

    def _wake(self) -> None:
        self.replicas.wake()

    def _compute(self) -> None:
        if self._computing:
            work, future = self._computing.pop(0)
            if not future.done():
                try:
                    future.set_result(work())
                except Exception as error:
                    future.set_exception(error)

    def _pass_time(self) -> None:
        self.broker.time.advance(self.random.choice((500, 1_000, 3_000, 8_000, 22_000)))

    def _leave(self) -> None:
        client = self._someone()
        if client is None or client.epoch <= 0:
            return
        epoch = -2 if client.instance_id is not None and self.random.random() < 0.7 else -1
        client.has, client.told = set(), None
        self._tell(f"{client.name} leaves with {epoch}")
        sent = self.line.send(self.broker.groups.consumer_groups, client, client.leaving(epoch))
        client.is_gone = True
        if epoch == -2 and sent is not None:
            self.laws.went_away(client)

    def _lose_patience(self) -> None:
        """A client does not wait any longer for an answer, and asks again."""
        waiting = [each for each in self.clients if each.pending is not None and not each.is_gone]
        if waiting:
            client = self.random.choice(waiting)
            client.pending = None
            client.says_all = True
            self._tell(f"{client.name} asks again")
            self._send(client)

    def _vanish(self) -> None:
        client = self._someone()
        if client is not None:
            self._tell(f"{client.name} vanishes")
            client.is_gone = True
            client.has = set()

    def _resubscribe(self) -> None:
        client = self._someone()
        if client is not None:
            client.topics = tuple(sorted(self.random.sample(_TOPICS, self.random.randint(0, 2))))
            client.says_all = True
            self._tell(f"{client.name} wants {client.topics}")

    def _change_topic(self) -> None:
        name = self.random.choice(_TOPICS)
        if name in self.topics and self.random.random() < 0.4:
            self._tell(f"topic {name} goes")
            self.broker.metadata.update(self._metadata(deleted=name))
            del self.topics[name]
        else:
            count = self.topics[name][1] + 1 if name in self.topics else 2
            self._tell(f"topic {name} has {count}")
            self._set_topic(name, count)

    def _kill(self) -> None:
        """kill -9: what the log has is there again, whoever waits is not answered."""
        log = OffsetsLog(bytes(self.broker.log().data))
        self.laws.killed()
        for client in self.clients:
            client.pending = None
            client.says_all = True
        self._computing.clear()
        elapsed = self.broker.time.target
        self.broker.groups.shutdown()
        self.broker = self._broker(log)
        self.broker.time.advance(elapsed.monotonic_ms())
        self.laws.loaded()

    # ---- the end

    async def _come_to_rest(self) -> None:
        self._tell("calm")
        self.replicas.is_calm, self.line.loss = True, 0.0
        for number in range(_CALM_ROUNDS):
            if number == _CALM_ROUNDS // 2:
                self.laws.at_rest()
                for name, (_, count) in list(self.topics.items()):
                    self._set_topic(name, count + 1)
            while self.replicas.wake():
                await self.turns()
            while self._computing:
                self._compute()
                await self.turns()
            self._take_answers()
            for client in self.clients:
                if not client.is_gone and client.pending is None:
                    client.give_up()
                    client.begin()
                    self._send(client)
                    await self.turns()
            self._take_answers()
            self.broker.time.advance(_HEARTBEAT_MS)
            await self.turns()
            self.laws.check()
        self.laws.at_rest()


def _short(response: Any) -> str:
    code = ErrorCode(response.error_code)
    if code is not ErrorCode.NONE:
        return f"{code.name} {response.error_message}"
    told = response.assignment
    has = (
        "" if told is None else {str(t.topic_id)[-2:]: t.partitions for t in told.topic_partitions}
    )
    return f"epoch {response.member_epoch} {has}"


def play(seed: int, steps: int = STEPS, *, is_told: bool = False) -> str | None:
    """Return what is wrong with a seed."""
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
    first, _, last = given.seeds.partition("-")
    if given.trace:
        play(int(first), is_told=True)
        return 0
    violations = hunt(range(int(first), int(last or first) + 1))
    print(*violations, f"{len(violations)} violations", sep="\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
