"""Rounds of stops, kills, lost sessions and broken connections in a cluster of one process, under
load; afterwards every partition is led where it was, with all that was acknowledged.

    python -m tests.faults.local_cluster_rounds --rounds 500 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.local_configs import configs_of_brokers
from tests.fakes.running.waiting import until
from tests.integration.local_cluster_client import Cluster

BROKERS = 3
TOPIC = "t"
ROUND_S = 0.2  # at most, between two faults
CUT_S = 0.1  # at most, until what was cut comes back


@dataclass
class Outcome:
    """What the producers of one run heard, and what was wrong at its end."""

    acknowledged: Counter[int] = field(default_factory=Counter)  # by partition
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Rounds:
    """One cluster, its producers, and what is done to it."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._local = cluster.local
        self._random = random
        self._leaders: dict[int, int] = {}
        self.outcome = Outcome()

    async def run(self, rounds: int) -> None:
        assert await self._cluster.create(TOPIC, 2 * BROKERS) is ErrorCode.NONE
        self._leaders = await self._cluster.leaders(0, TOPIC)
        producing = [asyncio.create_task(self._produce(partition)) for partition in self._leaders]
        faults: list[Callable[[int], Awaitable[None]]] = [
            self._stop, self._kill, self._expire, self._cut, self._kill_and_stop
        ]  # fmt: skip
        for _ in range(rounds):
            number = self._random.randrange(BROKERS)
            if self._random.random() < 1 / 3:
                number = next((n for n in range(BROKERS) if self._is_controller(n)), number)
            await self._random.choice(faults)(number)
            await asyncio.sleep(self._random.random() * ROUND_S)
        await until(self._all_agree)
        for task in producing:
            task.cancel()
        await asyncio.gather(*producing, return_exceptions=True)
        await self._check()

    async def _produce(self, partition: int) -> None:
        number = self._leaders[partition]
        while True:
            await asyncio.sleep(0.005)
            server = self._local.servers[number]
            if server is None or not server.lifecycle.is_running:
                continue
            try:
                code = await self._cluster.produce(number, TOPIC, partition, b"v")
            except (OSError, TimeoutError) as error:
                self.outcome.answers[type(error).__name__] += 1
            else:
                self.outcome.answers[code.name] += 1
                self.outcome.acknowledged[partition] += code is ErrorCode.NONE

    async def _stop(self, number: int) -> None:
        await self._local.stop_broker(number)
        await self._wait()
        await self._local.start_broker(number)

    async def _kill(self, number: int) -> None:
        await self._local.kill_broker(number)
        await self._wait()
        await self._local.start_broker(number)

    async def _kill_and_stop(self, number: int) -> None:
        other = (number + 1) % BROKERS
        await asyncio.gather(self._local.kill_broker(number), self._local.stop_broker(other))
        await asyncio.gather(self._local.start_broker(number), self._local.start_broker(other))

    async def _expire(self, number: int) -> None:
        session = self._session(number)
        session.expire()
        await self._wait()
        session.renew()

    async def _cut(self, number: int) -> None:
        session = self._session(number)
        session.suspend()
        await self._wait()
        session.resume()

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.random() * CUT_S)

    def _session(self, number: int) -> Any:
        return self._cluster.server(number).parts.storage.zk.tree

    def _is_controller(self, number: int) -> bool:
        server = self._local.servers[number]
        return server is not None and server.is_controller

    async def _all_agree(self) -> bool | None:
        for number in range(BROKERS):
            if await self._cluster.leaders(number, TOPIC) != self._leaders:
                return None
        return True

    async def _check(self) -> None:
        for partition, leader in self._leaders.items():
            code, end_offset = await self._cluster.end_offset(leader, TOPIC, partition)
            acknowledged = self.outcome.acknowledged[partition]
            if code is not ErrorCode.NONE or end_offset < acknowledged:
                self.outcome.wrong.append(
                    f"partition {partition}: {code.name}, {end_offset} of {acknowledged} records"
                )
        controllers = [n for n in range(BROKERS) if self._is_controller(n)]
        if len(controllers) != 1:
            self.outcome.wrong.append(f"controllers: {controllers}")


async def run_rounds(seed: int, rounds: int) -> Outcome:
    """One cluster, from its first start to its stop."""
    with tempfile.TemporaryDirectory(prefix="kbroker-rounds-") as directory:
        values = {"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0"}
        config = KafkaConfig.for_profile("dev", values)
        local = LocalCluster(configs_of_brokers(config, BROKERS), directory)
        await local.startup()
        try:
            run = Rounds(Cluster(local), Random(seed))
            await run.run(rounds)
            if local.failure is not None:
                run.outcome.wrong.append(str(local.failure))
            return run.outcome
        finally:
            await local.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcome = asyncio.run(run_rounds(options.seed, options.rounds))
    print(f"{options.rounds} rounds: {dict(outcome.answers)}")
    print("\n".join(outcome.wrong) or "nothing lost, all as before")
    raise SystemExit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
