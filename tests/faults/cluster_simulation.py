"""Whole clusters in one process, under one seed: brokers with their controllers, sessions and
metadata over one tree, troubled at random, and compared with a model while they run and after they
have come to rest.

    python -m tests.faults.cluster_simulation --seeds 1-1000 --steps 60
    python -m tests.faults.cluster_simulation --seeds 17 --trace

Everything follows from the seed and the number of steps: time is virtual, there are no threads and
no sockets, and nothing depends on the order of Python's sets, whatever PYTHONHASHSEED says.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random as global_random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID
from zlib import crc32

from kbroker.errors import KafkaError
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import StorageError
from kbroker.server.broker.surroundings import Channels
from kbroker.server.start_error import BrokerIdInUseError
from kbroker.zk.tree import TreeError
from kbroker.zk.zk_utils import ControllerMovedError
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.running.virtual_loop import (
    LoopClock,
    NothingLeftError,
    OwnerState,
    SpinningError,
    VirtualLoop,
    nobody,
)
from tests.fakes.trees.simulated_tree import Ensemble, TreeWeather
from tests.faults.cluster_checks import RestCheck, directories_on, lost_records, topic_id_in
from tests.faults.cluster_faults import ClusterFaults
from tests.faults.cluster_load import ClusterLoad
from tests.faults.cluster_model import ClusterModel, ObservedTree, TopicLife, Violation
from tests.faults.cluster_network import ClusterNetwork, NetworkWeather, SimulatedChannels
from tests.faults.cluster_process import BrokerProcess, Machine, SimulatedDisk

REST_BOUND_S = 90.0  # so long after the last fault everything must be in order
REST_LOOKS_S = 0.5
START_LOOKS = 120  # a cluster that has not come up by then is troubled nevertheless
STEPS = 60
# A broker that says so has met an error it knows.
KNOWN_ERRORS = (
    TreeError,
    ControllerMovedError,
    KafkaError,
    StorageError,
    LogDirectoryError,
    BrokerIdInUseError,
    OSError,
    TimeoutError,
)


@dataclass(slots=True)
class Outcome:
    """What many histories have come to."""

    seeds: int = 0
    digest: int = 0  # of all that happened
    steps: int = 0
    virtual_s: float = 0.0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, Violation]] = field(default_factory=list)

    def line(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return (
            f"{self.seeds} seeds ({self.digest:08x}), {self.steps} steps, {self.virtual_s / 3600:.1f} h in "
            f"{self.seconds:.0f} s, {len(self.violations)} violations; {counts}"
        )


class LogWatch(logging.Handler):
    """What brokers say: errors they did not expect are violations."""

    def __init__(self, model: ClusterModel) -> None:
        super().__init__(logging.DEBUG if model.trace is not None else logging.ERROR)
        self._model = model

    def emit(self, record: logging.LogRecord) -> None:
        self._model.overhear(f"{record.levelname} {record.name}: {record.getMessage()}")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, KNOWN_ERRORS):
            self._model.violate("unexpected error", f"{record.getMessage()}: {error!r}")


class ClusterHistory:
    """One seed. `wishes` are names of tasks that somebody outside waits for."""

    wishes = frozenset({"wish", "request"})

    def __init__(
        self,
        seed: int,
        steps: int = STEPS,
        *,
        traced: bool = False,
        tolerated: frozenset[str] = frozenset(),
    ) -> None:
        self.seed = seed
        self.steps = steps
        self.random = Random(f"cluster/{seed}")
        self.loop = VirtualLoop()
        self.clock = LoopClock(self.loop)
        self.model = ClusterModel(self.loop.time)
        self.model.trace = [] if traced else None
        self.model.tolerated = tolerated
        self.model.on_topic_gone = self._on_topic_gone
        self.loop.look_on(self._on_turn)
        self.loop.on_exception = self._on_exception
        self._starts = 0
        self._is_healing = False
        self._all: list[BrokerProcess] = []  # what the killed have left undone is kept to the end

    def run(self, outcome: Outcome) -> None:
        """Live it, and add what it came to."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._live())
        except (SpinningError, NothingLeftError) as error:
            self.model.violate("stuck", repr(error))
        finally:
            asyncio.set_event_loop(None)
            self._bury()
        outcome.seeds += 1
        outcome.digest = crc32(self.model.digest.to_bytes(4), outcome.digest)
        outcome.steps += self.steps
        outcome.virtual_s += self.loop.time()
        self._count(outcome.counts)
        outcome.violations += [(self.seed, violation) for violation in self.model.violations]

    # ---- the story

    async def _live(self) -> None:
        self._build()
        for broker_id in self.disks:
            self._start(broker_id)
        for _ in range(START_LOOKS):
            await asyncio.sleep(REST_LOOKS_S)
            if len(self._running()) == len(self.disks):
                break
        await self._prepare()
        kinds, weights = self._kinds()
        for _ in range(self.steps):
            action = self.random.choices(kinds, weights)[0]
            await action()
            await asyncio.sleep(self._gap_s())
            if self.model.violations:
                return
        await self._rest()
        if not self.model.violations:
            await self._stop_all()

    def _build(self) -> None:
        random = self.random
        self.store = ObservedTree(self.clock)
        self.store.model = self.model
        weather = TreeWeather(
            random,
            slow=random.choice((0.0, 0.05, 0.3)),
            slow_s=random.choice((0.2, 1.0, 3.0)),
            watch_slow=random.choice((0.0, 0.1, 0.5)),
            failing=random.choice((0.0, 0.01, 0.03)),
        )
        self.ensemble = Ensemble(self.store, self.loop, weather)
        network_weather = NetworkWeather(
            random,
            slow=random.choice((0.0, 0.05, 0.3)),
            slow_s=random.choice((0.2, 2.0, 6.0)),
            lost_requests=random.choice((0.0, 0.02, 0.1)),
            lost_answers=random.choice((0.0, 0.02, 0.1)),
        )
        self.processes: dict[int, BrokerProcess] = {}
        self.network = ClusterNetwork(self.loop, network_weather, self.processes)
        self.faults = ClusterFaults(
            random, self.loop, self.ensemble, self.network, self.model, self._start_later
        )
        self.load = ClusterLoad(random, self.loop, self.store, self.model)
        self.disks: dict[int, SimulatedDisk | PowerDisk] = {
            broker_id: SimulatedDisk(self.clock.now_ms)
            for broker_id in range(1, random.randrange(4, 7) if random.random() < 0.9 else 2)
        }

    async def _prepare(self) -> None:
        """Make all that has to be there before anything happens; nothing here."""

    def _kinds(self) -> tuple[list[Callable[[], Any]], list[int]]:
        """Return what may happen in this history, and how often: not every kind in each."""
        random, load, faults = self.random, self.load, self.faults
        work: dict[Callable[[], Any], int] = {
            self._through(load.create): 10,
            load.create_replicated: 6,
            self._through(load.delete): 6,
            load.delete_by_hand: 2,
            self._through(load.grow): 4,
            self._through(load.alter): 4,
            self._through(load.alter_often): 2,
            load.alter_by_hand: 2,
            self._through(load.elect_preferred): 2,
            self._append: 12,
            load.prefer_by_hand: 1,
            load.reassign_by_hand: 3,
        }
        trouble: dict[Callable[[], Any], int] = {
            _soon(faults.kill): 5,
            self._stop_one: 2,
            _soon(faults.pause): 4,
            _soon(faults.suspend): 5,
            _soon(faults.expire): 4,
            _soon(faults.outage): 2,
            _soon(faults.cut_link): 4,
            _soon(faults.hold_link): 3,
            _soon(faults.fail_disk): 2,
        }
        chosen = {kind: weight for kind, weight in trouble.items() if random.random() < 0.5}
        kinds = work | chosen
        return list(kinds), list(kinds.values())

    def _gap_s(self) -> float:
        random = self.random
        return random.choice((0.0, 0.002, 0.01, 0.1, 0.5, 1.0, 3.0)) * random.random()

    def _through(self, method: Callable[[BrokerProcess], Any]) -> Callable[[], Any]:
        async def act() -> None:
            running = self._running()
            if running:
                await method(self.random.choice(running))

        return act

    async def _append(self) -> None:
        await self.load.append(self._running())

    async def _stop_one(self) -> None:
        running = self._running()
        if running:
            process = self.random.choice(running)
            process.is_serving = False
            self.faults.counts.stops += 1
            self.model.say(f"{process}: stops")
            self.loop.start(self._stop(process), process.owner, "stop")

    def _running(self) -> list[BrokerProcess]:
        return [process for process in self.processes.values() if process.runs]

    # ---- processes

    def _start_later(self, broker_id: int, seconds: float) -> None:
        self.loop.call_later(seconds, self._start, broker_id, context=nobody())

    def _start(self, broker_id: int) -> None:
        if broker_id in self.processes or (self.ensemble.is_down and not self._is_healing):
            self._start_later(broker_id, 1.0)
            return
        self.disks[broker_id].failed.clear()  # repaired
        self._starts += 1
        process = BrokerProcess(self._machine(broker_id), self._starts)
        process.on_order = self.model.on_order
        process.on_request = self.model.on_request
        self.processes[broker_id] = process
        self._all.append(process)
        self.model.say(f"{process}: starts")
        self.loop.start(self._run(process), process.owner, "start")

    def _machine(self, broker_id: int) -> Machine:
        return Machine(
            broker_id=broker_id,
            disk=self.disks[broker_id],
            ensemble=self.ensemble,
            clock=self.clock,
            random=Random(self.random.getrandbits(64)),
        )

    def _channels(self, process: BrokerProcess) -> Channels:
        return SimulatedChannels(self.network, process)

    async def _run(self, process: BrokerProcess) -> None:
        try:
            await process.start(self._channels(process))
        except (TreeError, BrokerIdInUseError, LogDirectoryError) as error:
            self.model.say(f"{process}: does not start: {error!r}")
            self.loop.call_soon(self._ended_early, process, context=nobody())
        except Exception as error:
            self.model.violate("unexpected error", f"{process} does not start: {error!r}")
        else:
            self.model.say(f"{process}: serves")

    def _ended_early(self, process: BrokerProcess) -> None:
        if process.is_alive:
            self.faults.end(process)
            self._start_later(process.broker_id, 1.0)

    async def _stop(self, process: BrokerProcess) -> None:
        try:
            await process.stop()
        except (TreeError, KafkaError) as error:
            self.model.say(f"{process}: does not stop well: {error!r}")
        self.model.say(f"{process}: has stopped")
        left = [task for task in process.owner.tasks if not task.done()]
        names = {_name_of(t) for t in left if t is not asyncio.current_task()}
        if names - self.wishes:
            self.model.violate("task left", f"{process}: {sorted(names - self.wishes)}")
        self.loop.call_soon(self._stopped, process, context=nobody())

    def _stopped(self, process: BrokerProcess) -> None:
        process.has_ended = False  # so far only by its own word
        self._ended_early(process)

    # ---- the end

    async def _rest(self) -> None:
        """Nothing troubles the cluster any more: wait until all is as it should be."""
        self.model.say("---- everything is well from here on")
        self._heal()
        began = self.loop.time()
        findings: list[str] = []
        while self.loop.time() - began < REST_BOUND_S:
            await asyncio.sleep(2 * REST_LOOKS_S)
            findings = self._findings()
            if not findings:
                break
            if self.model.violations:
                return
        for finding in findings:
            self.model.violate("not at rest", finding)
        if findings:
            return
        self._rested_s = self.loop.time() - began
        for text in lost_records(list(self.processes.values()), self.model):
            self.model.violate("lost records", text)

    def _heal(self) -> None:
        self._is_healing = True
        self.faults.end_outage()
        self.ensemble.is_down = False
        self.network.cut_links.clear()
        self.network.held_until.clear()
        weather, network = self.ensemble.weather, self.network.weather
        weather.failing = weather.slow = weather.watch_slow = 0.0
        network.slow = network.lost_requests = network.lost_answers = 0.0
        for process in list(self.processes.values()):
            if process.owner.state is OwnerState.PAUSED:
                self.faults.resume(process)
            process.tree.restore()
            if process.disk.failed:
                self.faults.end(process)
                self._start_later(process.broker_id, 1.0)

    def _findings(self) -> list[str]:
        processes = list(self.processes.values())
        serving = [process for process in processes if process.runs]
        if len(serving) < len(self.disks):
            return [f"only {serving} of {len(self.disks)} brokers serve"]
        return list(RestCheck(self.store, processes, self.model).findings())

    async def _stop_all(self) -> None:
        self._is_healing = True
        processes = list(self.processes.values())
        stops = [self.loop.start(_finished(p), p.owner, "stop") for p in processes]
        _, pending = await asyncio.wait(stops, timeout=60.0)
        if pending:
            self.model.violate("no stop", f"{len(pending)} brokers do not stop within 60 s")
        for stop in stops:
            if stop.done() and stop.exception() is not None:
                self.model.violate("no stop", repr(stop.exception()))

    # ---- watching

    def _on_turn(self) -> None:
        alive = [p for p in self.processes.values() if p.is_listening and not p.has_ended]
        self.model.check_controllers(alive, self.store)
        for process in alive:
            if process.failed:
                self._ended_early(process)

    def _on_exception(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, KNOWN_ERRORS) or error is None:
            self.model.say(f"loop: {context.get('message')} {error!r}")
        else:
            self.model.violate("unexpected error", f"{context.get('message')} {error!r}")

    def _on_topic_gone(self, life: TopicLife) -> None:
        """All its replicas must have gone before its node does."""
        removed = {(broker_id, topic_id) for broker_id, _, topic_id in self.model.removed}
        for broker_id, disk in self.disks.items():
            for directory in directories_on(disk):
                # As in Kafka, nobody waits for replicas that a reassignment takes away.
                taken_away = (broker_id, life.topic_id) in removed
                is_its_own = topic_id_in(disk, directory) == life.topic_id
                if is_its_own and not taken_away and not disk.failed:
                    self.model.violate(
                        "log outlives its topic", f"{directory} of broker {broker_id}"
                    )

    def _count(self, counts: Counter[str]) -> None:
        if not hasattr(self, "load"):
            return
        for source in (self.faults.counts, self.network.counts, self.ensemble.counts):
            for name in source.__slots__:
                counts[name] += getattr(source, name)
        counts["starts"] += self._starts
        counts["reigns"] += len(self.model.epochs)
        counts["wishes"] += self.load.wishes
        counts["wishes fulfilled"] += self.load.fulfilled
        counts["appended"] += self.load.appended
        counts["transactions"] += self.store.zxid

    def _bury(self) -> None:
        """Close the tasks of killed processes unfinished; nobody has to hear of it."""
        self.model.is_over = True
        self.loop.on_exception = lambda _: None
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(RuntimeError):
                task.get_coro().close()  # type: ignore[union-attr]
        self.loop.close()


def _name_of(task: asyncio.Task[Any]) -> str:
    """Its name, or where it has none, that of what it does."""
    name = task.get_name()
    return task.get_coro().__qualname__ if name.startswith("Task-") else name  # type: ignore[union-attr]


async def _finished(process: BrokerProcess) -> None:
    await process.stop()


def _soon(fault: Callable[[], None]) -> Callable[[], Any]:
    async def act() -> None:
        fault()

    return act


@contextmanager
def seeded_ids(random: Random) -> Iterator[None]:
    """Ids and jitter come from the seed as well."""

    def draw() -> UUID:
        return UUID(int=random.getrandbits(128), version=4)

    places = [
        patch.object(module, "uuid4", draw)
        for name, module in sorted(sys.modules.items())
        if name.startswith("kbroker.") and hasattr(module, "uuid4")
    ]
    global_random.seed(random.getrandbits(64))
    for place in places:
        place.start()
    try:
        yield
    finally:
        for place in places:
            place.stop()


@contextmanager
def watched_logs(model: ClusterModel) -> Iterator[None]:
    logger = logging.getLogger("kbroker")
    handler = LogWatch(model)
    before = logger.level, logger.propagate
    logger.setLevel(handler.level)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def live(
    seed: int,
    steps: int,
    outcome: Outcome,
    *,
    traced: bool = False,
    tolerated: frozenset[str] = frozenset(),
    history: type[ClusterHistory] = ClusterHistory,
) -> ClusterHistory:
    """One history, from its build to its burial."""
    lived = history(seed, steps, traced=traced, tolerated=tolerated)
    with seeded_ids(Random(f"ids/{seed}")), watched_logs(lived.model):
        lived.run(outcome)
    return lived


def hunt(
    seeds: range,
    steps: int = STEPS,
    *,
    stops: bool = False,
    progress: bool = False,
    tolerated: frozenset[str] = frozenset(),
    history: type[ClusterHistory] = ClusterHistory,
) -> Outcome:
    """Live many histories; `stops` at the first that is wrong."""
    outcome = Outcome()
    started = time.monotonic()
    for seed in seeds:
        before = len(outcome.violations)
        live(seed, steps, outcome, tolerated=tolerated, history=history)
        outcome.seconds = time.monotonic() - started
        if progress:
            for _, violation in outcome.violations[before : before + 2]:
                print(f"seed {seed}: {violation}", flush=True)
            if outcome.seeds % 100 == 0:
                print(outcome.line(), flush=True)
        if stops and outcome.violations:
            break
    return outcome


def main(
    arguments: list[str],
    history: type[ClusterHistory] = ClusterHistory,
    description: str | None = __doc__,
) -> int:
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--seeds", default="1-100", help="one seed, or the first and the last")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--trace", action="store_true", help="say all that happens")
    parser.add_argument("--tolerate", action="append", default=[], metavar="KIND")
    chosen = parser.parse_args(arguments)
    tolerated = frozenset(chosen.tolerate)
    first, _, last = chosen.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if chosen.trace:
        outcome = Outcome()
        for seed in seeds:
            lived = live(
                seed, chosen.steps, outcome, traced=True, tolerated=tolerated, history=history
            )
            print("\n".join(lived.model.trace or ()))
    else:
        outcome = hunt(seeds, chosen.steps, progress=True, tolerated=tolerated, history=history)
    print(outcome.line())
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
