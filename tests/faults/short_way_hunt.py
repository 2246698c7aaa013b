"""Two brokers hear the same bytes: one answers what a client repeats in the short way (see
`kbroker/apis/lanes` and `kept_metadata`), the other decodes every request. Answers and logs have to
be equal, byte by byte, whatever is sent and whatever happens to the broker meanwhile.

    python -m tests.faults.short_way_hunt --frames 2000000 --seed 1
    python -m tests.faults.short_way_hunt --seed 17 --steps 100

Seeds with even numbers are lived under access rules, which change all the time, as do the
principals of connections. Everything follows from the seed and the number of steps: each broker lives the same history on a
loop of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random as random_module
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from kbroker.apis.lanes import ROOM_BYTES, Lanes
from kbroker.network.receive_buffers import Buffer, ReceiveBuffers
from kbroker.protocol.codec import decode
from kbroker.protocol.header import decode_response_header
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.schema import Message, response_class
from tests.fakes.running.virtual_loop import VirtualLoop
from tests.faults.short_way_broker import (
    ADMIN,
    BROKER_ID,
    FOLLOWER_ID,
    PRINCIPALS,
    HuntedBroker,
    HuntedConnection,
)
from tests.faults.short_way_requests import PARTITIONS, TOPICS, Requests, Scene, pieces_of

STEPS = 150
CLIENTS = 4
_TOPIC_RESOURCE = 2
_WAITS_S = (0.0, 0.0, 0.001, 0.006, 0.06, 0.6)


@dataclass(slots=True)
class Lived:
    """What one broker has answered, step by step, and left on its disk."""

    answers: list[tuple[str, bytes]] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    frames: int = 0


@dataclass(slots=True)
class Outcome:
    """What many histories have come to."""

    seeds: int = 0
    frames: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def line(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return f"{self.seeds} seeds, {self.frames} frames, {len(self.differences)} differ; {counts}"


class History:
    """One seed, lived by one broker."""

    def __init__(
        self, seed: int, directory: Path, *, takes_short_way: bool, under_rules: bool
    ) -> None:
        self._random = Random(f"short way/{seed}")
        self._chances_of_rules = Random(f"rules/{seed}") if under_rules else None
        self._seed = seed
        self._directory = directory
        self._takes_short_way = takes_short_way
        self._scene = Scene()
        self.lived = Lived()

    async def live(self, steps: int) -> None:
        random = self._random
        self._broker = broker = HuntedBroker(
            self._directory,
            self._seed,
            takes_short_way=self._takes_short_way,
            under_rules=self._chances_of_rules is not None,
            **{
                "auto.create.topics.enable": "false",
                "log.segment.bytes": random.choice(("600", "5000", "1000000")),
                "log.index.interval.bytes": random.choice(("100", "4096")),
                "kbroker.flush": "never",
                "max.incremental.fetch.session.cache.slots": random.choice(("2", "1000", "1000")),
                "log.message.timestamp.type": random.choice(("CreateTime", "LogAppendTime")),
            },
        )
        await broker.start()
        await asyncio.sleep(2)
        self._admin = Requests(Random(0), self._scene)
        self._admin_connection = await broker.connect(ADMIN)
        for topic in TOPICS:
            await self._create(topic)
        await self._join()
        self._clients = [Requests(Random(f"{self._seed}/{n}"), self._scene) for n in range(CLIENTS)]
        self._connections = [await broker.connect() for _ in range(CLIENTS)]
        for number in range(steps):
            if random.random() < 0.15:
                await self._change()
            if self._chances_of_rules is not None:
                self._change_rules(self._chances_of_rules)
            await self._speak(number)
        await self._end()

    # ---- clients

    async def _speak(self, number: int) -> None:
        """One client sends some frames; what all of them are answered is kept."""
        random = self._random
        which = random.randrange(CLIENTS)
        client, connection = self._clients[which], self._connections[which]
        if connection.wire.is_closed:
            connection = self._connections[which] = await self._reconnect(connection)
        count = random.choice((1, 1, 2, 3, 8, 20))
        data = client.next_frames(count)
        self.lived.frames += count
        await connection.deliver(pieces_of(random, data))
        await asyncio.sleep(random.choice(_WAITS_S))
        for other, (heard, at) in enumerate(zip(self._clients, self._connections, strict=True)):
            news = at.news()
            if news or other == which:
                self.lived.answers.append((f"step {number}, connection {other}", news))
                heard.heard(at.answers())

    async def _reconnect(self, old: HuntedConnection) -> HuntedConnection:
        self._count(old)
        if self._chances_of_rules is None:
            return await self._broker.connect()
        return await self._broker.connect(self._chances_of_rules.choice(PRINCIPALS))

    def _count(self, connection: HuntedConnection) -> None:
        counts, channel = self.lived.counts, connection.channel
        counts["connections"] += 1
        counts["handled"] += channel.requests

    # ---- what happens to the broker

    async def _change(self) -> None:
        kinds = {
            self._follow: 30,
            self._need_follower: 12,
            self._lead_alone: 8,
            self._lead_elsewhere: 6,
            self._take_away: 2,
            self._make_anew: 5,
            self._configure: 5,
            self._fill_wire: 8,
            self._close_one: 5,
            self._pause: 2,
            self._restart: 1,
            self._ask_others: 3,
            self._lose_disk: 0.2,
        }
        kind = self._random.choices(list(kinds), list(kinds.values()))[0]
        self.lived.counts[kind.__name__[1:]] += 1
        await kind(self._random.choice(TOPICS), self._random.randrange(PARTITIONS))

    async def _follow(self, _topic: str, _index: int) -> None:
        for topic in TOPICS:
            for index in range(PARTITIONS):
                self._broker.follow(topic, index)

    async def _need_follower(self, topic: str, index: int) -> None:
        self._broker.lead(topic, index, isr=(BROKER_ID, FOLLOWER_ID))

    async def _lead_alone(self, topic: str, index: int) -> None:
        self._broker.lead(topic, index)

    async def _lead_elsewhere(self, topic: str, index: int) -> None:
        self._broker.lead(topic, index, leader=FOLLOWER_ID, isr=(BROKER_ID, FOLLOWER_ID))

    async def _take_away(self, topic: str, index: int) -> None:
        self._broker.remove(topic, index, deletes=self._random.random() < 0.5)

    async def _make_anew(self, topic: str, _index: int) -> None:
        await self._ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=1_000), 5)
        await asyncio.sleep(0.5)
        await self._create(topic)

    async def _fill_wire(self, _topic: str, _index: int) -> None:
        random = self._random
        wire = random.choice(self._connections).wire
        wire.room = random.choice((0, 1, 40, 300))
        self._broker.loop.call_later(random.choice((0.001, 0.1)), wire.take, 1 << 40)

    async def _close_one(self, _topic: str, _index: int) -> None:
        self._random.choice(self._connections).channel.close()

    async def _pause(self, _topic: str, _index: int) -> None:
        await asyncio.sleep(130)  # fetch sessions may give way to others

    async def _lose_disk(self, _topic: str, _index: int) -> None:
        self._broker.lose_disk()

    async def _restart(self, _topic: str, _index: int) -> None:
        await self._close_all()
        random = self._random
        self._broker.serve_anew(denies=random.random() < 0.4, throttles=random.random() < 0.4)
        self._admin_connection = await self._broker.connect(ADMIN)

    async def _ask_others(self, _topic: str, _index: int) -> None:
        random = self._random
        self._broker.ask_others(denies=random.random() < 0.4, throttles=random.random() < 0.4)

    def _change_rules(self, random: Random) -> None:
        """Perhaps; to be called at any time."""
        chance = random.random()
        if chance < 0.15:
            self._broker.change_rules(random)
            self.lived.counts["changed rules"] += 1
        elif chance < 0.18:
            self._broker.authorizer.read_all_again()
        elif chance < 0.38:
            connection = random.choice(self._connections).wire.connection
            connection.principal = random.choice(PRINCIPALS)
            self.lived.counts["logins"] += 1
        elif chance < 0.46:
            loop, delay_s = self._broker.loop, random.choice((0.0005, 0.003, 0.03, 0.3))
            loop.call_later(delay_s, self._broker.revoke, random.choice(TOPICS))

    async def _close_all(self) -> None:
        """Close all connections, and note what is counted and left then."""
        for connection in (*self._connections, self._admin_connection):
            connection.channel.close()
        await asyncio.sleep(10)  # until nothing waits any more
        counted = self._broker.counters()
        lane_room = self._broker.apis.lane_room
        lane_room.forget()
        left = ROOM_BYTES - lane_room.left
        if left:
            counted += f", {left} bytes of templates are left"
        self.lived.answers.append(("counters", counted.encode()))

    async def _create(self, topic: str) -> None:
        creatable = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=PARTITIONS, replication_factor=1
        )
        await self._ask(CreateTopicsRequest(topics=[creatable], timeout_ms=1_000), 5)
        await asyncio.sleep(0.5)
        topic_id = self._broker.topic_id(topic)
        if topic in self._scene.ids:
            self._scene.old_ids.append(self._scene.ids[topic])
        self._scene.ids[topic] = topic_id

    async def _configure(self, topic: str, _index: int) -> None:
        name, values = self._random.choice(
            (
                ("min.insync.replicas", ("1", "2")),
                ("max.message.bytes", ("200", "1000000")),
                ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
                ("compression.type", ("producer", "gzip", "uncompressed")),
            )
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=_TOPIC_RESOURCE,
            resource_name=topic,
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name=name, value=self._random.choice(values)
                )
            ],
        )
        await self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 0)
        await asyncio.sleep(0.2)

    async def _join(self) -> None:
        """One member of the group `g`, who stays."""
        scene = self._scene
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        for kind in (0, 1):  # so that the topics of groups and transactions are made
            for _ in range(3):
                await self._ask(FindCoordinatorRequest(key="g", key_type=kind), 1)
                await asyncio.sleep(1)
        joined = await self._ask(request, 3)
        assert not joined.error_code, joined
        scene.member_id, scene.generation_id = joined.member_id, joined.generation_id
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=scene.member_id, assignment=b"all"
        )
        await self._ask(
            SyncGroupRequest(
                group_id="g",
                generation_id=scene.generation_id,
                member_id=scene.member_id,
                assignments=[assignment],
            ),
            2,
        )

    async def _ask(self, request: Message, version: int) -> Any:
        """The answer that an administrator gets, decoded."""
        connection = self._admin_connection
        frame = self._admin.frame(request, version)
        await connection.deliver([len(frame).to_bytes(4, "big") + frame])
        for _ in range(100):
            answers = connection.answers()
            if answers:
                break
            await asyncio.sleep(0.1)
        if not answers:
            return None
        key = request.spec.key or 0
        view = memoryview(bytearray(answers[-1]))
        _, body = decode_response_header(view, key, version)
        answer, _ = decode(response_class(type(request)), version, view, body)
        return answer

    async def _end(self) -> None:
        """Let all that waits come to its end."""
        for connection in self._connections:
            connection.wire.take(1 << 40)
        await asyncio.sleep(10)
        for number, connection in enumerate(self._connections):
            self.lived.answers.append((f"the end, connection {number}", connection.news()))
            self._count(connection)
        await self._close_all()
        self.lived.files = self._broker.stop()


@contextmanager
def spoilt_buffers(lived: Lived) -> Iterator[None]:
    """Overwrite each receive buffer that is given back, as bytes of another connection would; at
    the end nobody may look at one any more.
    """
    original, make = ReceiveBuffers.recycle, ReceiveBuffers.__init__
    seen: dict[int, bytearray] = {}

    def spoil(buffer: Buffer) -> None:
        buffer[:] = b"\xdd" * len(buffer)
        whole = buffer.obj if isinstance(buffer, memoryview) else buffer
        if isinstance(whole, bytearray):
            seen[id(whole)] = whole

    class Spoilt(list[bytearray]):
        """Those of the base size, which are put back without a call of `recycle`."""

        def append(self, buffer: bytearray) -> None:
            spoil(buffer)
            super().append(buffer)

    def recycle(buffers: ReceiveBuffers, buffer: Buffer) -> None:
        spoil(buffer)
        original(buffers, buffer)

    def made(buffers: ReceiveBuffers, budget_bytes: int) -> None:
        make(buffers, budget_bytes)
        buffers.base = Spoilt()

    with (
        patch.object(ReceiveBuffers, "recycle", recycle),
        patch.object(ReceiveBuffers, "__init__", made),
    ):
        yield
    gc.collect()
    for whole in seen.values():
        try:
            whole.append(0)  # not while anybody has a view of it
        except BufferError:
            lived.answers.append(("the end", b"a receive buffer is looked at"))


@contextmanager
def same_chances(seed: int) -> Iterator[None]:
    """Whatever a broker draws by lot is the same for each that lives under this."""
    random_module.seed(seed)
    with patch("os.urandom", Random(seed).randbytes):
        yield


def lived(
    seed: int, steps: int, directory: Path, *, takes_short_way: bool, under_rules: bool
) -> Lived:
    """The history of a seed, as one broker lives it."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    history = History(seed, directory, takes_short_way=takes_short_way, under_rules=under_rules)
    original = Lanes.answer
    short = 0

    def counted(lanes: Lanes, buffer: bytearray, start: int, end: int) -> Any:
        nonlocal short
        answer = original(lanes, buffer, start, end)
        short += answer is not None
        return answer

    try:
        with (
            same_chances(seed),
            patch.object(Lanes, "answer", counted),
            spoilt_buffers(history.lived),
        ):
            loop.run_until_complete(history.live(steps))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    history.lived.counts["short ways"] += short
    return history.lived


def difference(short: Lived, long: Lived) -> str | None:
    """How two lives differ first; None if they do not."""
    for (place, answer), (other_place, other) in zip(short.answers, long.answers, strict=False):
        if place != other_place:
            return f"{place} against {other_place}"
        if answer != other:
            at = next(
                (
                    n
                    for n, pair in enumerate(zip(answer, other, strict=False))
                    if pair[0] != pair[1]
                ),
                min(len(answer), len(other)),
            )
            return (
                f"{place}: byte {at} of {len(answer)} and {len(other)}: "
                f"{answer[max(0, at - 40) : at + 40].hex()} against {other[max(0, at - 40) : at + 40].hex()}"
            )
    if len(short.answers) != len(long.answers):
        return f"{len(short.answers)} answers against {len(long.answers)}"
    if short.files != long.files:
        names = short.files.keys() | long.files.keys()
        differing = sorted(n for n in names if short.files.get(n) != long.files.get(n))
        return f"files {differing}"
    return None


def hunt(seed: int, steps: int, outcome: Outcome, *, under_rules: bool = False) -> None:
    """Let both brokers live a seed, and add what came of it."""
    memory = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    lives = []
    try:
        for way in (True, False):
            lives.append(
                lived(
                    seed,
                    steps,
                    directory / "disk",
                    takes_short_way=way,
                    under_rules=under_rules,
                )
            )
            shutil.rmtree(directory / "disk")  # the other one has the same names
    finally:
        shutil.rmtree(directory)
    short, long = lives
    outcome.seeds += 1
    outcome.frames += short.frames
    outcome.counts += short.counts
    found = difference(short, long)
    if found is not None:
        outcome.differences.append(f"seed {seed}, {steps} steps: {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each history")
    parser.add_argument("--frames", type=int, default=1, help="go on until so many were sent")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    outcome, seed = Outcome(), options.seed
    while outcome.frames < options.frames and len(outcome.differences) < 10:
        before = len(outcome.differences)
        hunt(seed, options.steps, outcome, under_rules=seed % 2 == 0)
        seed += 1
        for found in outcome.differences[before:]:
            print(found, flush=True)
        if outcome.seeds % 50 == 0:
            print(outcome.line(), flush=True)
    print(outcome.line())


if __name__ == "__main__":
    main()
