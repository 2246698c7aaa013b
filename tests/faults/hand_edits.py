"""Somebody edits the tree by hand, at random: nodes are removed, spoilt, replaced by others that
Kafka could read but never writes. Afterwards there is a controller, without a bug on its way, and a
new topic is led.

    python -m tests.faults.hand_edits --rounds 2000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

from kbroker.controller import kafka_controller
from kbroker.controller.channels import controller_channel_manager
from kbroker.model import ReplicaAssignment
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.wording import uuid_text
from kbroker.zk import zk_paths
from kbroker.zk.tree import NoNodeError, TreeError
from kbroker.zk.zk_paths import TopicAssignment, ZnodeFormatError
from tests.fakes.clusters.controller_cluster import ControllerCluster

EDITS = 12
NEWEST = {LeaderAndIsrRequest: 7, UpdateMetadataRequest: 8, StopReplicaRequest: 4}
# Where the truth about the cluster is kept: what is spoilt there stays so until it is mended.
KEPT = (zk_paths.CONTROLLER_EPOCH, "/cluster", "/feature")

JUNK = (None, b"", b"{}", b"[]", b"null", b"no JSON", b"\xff\xfe", b'{"version":9}', b"7", b'"x"')


class Errors(logging.Handler):
    """Keeps what was logged with an exception that says nothing of the tree: a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not isinstance(record.exc_info[1], TreeError | ZnodeFormatError):
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class HandEdits:
    """One cluster, and somebody with a ZooKeeper shell."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._cluster = ControllerCluster()

    async def play(self) -> list[str]:
        """Returns what is wrong."""
        errors = Errors()
        logging.getLogger("kbroker").addHandler(errors)
        try:
            return [*errors.found, *await self._play(), *errors.found]
        finally:
            logging.getLogger("kbroker").removeHandler(errors)
            await self._cluster.stop()

    async def _play(self) -> list[str]:
        for broker_id in range(3):
            await self._cluster.start(broker_id)
        for number in range(3):
            await self._create(f"t{number}", self._replicas())
        for _ in range(EDITS):
            await self._edit()
            if self._random.random() < 0.5:
                await self._cluster.settle()
        await self._cluster.settle()
        await self._mend_brokers()
        await self._create("after", (0, 1, 2))
        return await self._found_wrong()

    async def _create(self, name: str, *partitions: tuple[int, ...]) -> None:
        assignment = TopicAssignment(
            topic_id=uuid4(),
            partitions={p: ReplicaAssignment(replicas=ids) for p, ids in enumerate(partitions)},
        )
        path = zk_paths.topic_path(name)
        await self._session.create(path, zk_paths.encode_topic(assignment))
        await self._cluster.settle()

    @property
    def _session(self):  # type: ignore[no-untyped-def]
        return self._cluster.brokers[0].session

    def _replicas(self) -> tuple[int, ...]:
        return tuple(self._random.sample(range(3), self._random.randint(1, 3)))

    # ---- edits

    async def _edit(self) -> None:
        edits = (
            self._spoil,
            self._remove,
            self._odd_topic,
            self._odd_state,
            self._odd_broker,
            self._ask,
        )
        with suppress(TreeError):  # the shell says no
            await self._random.choice((self._spoil, *edits))()

    def _paths(self) -> list[str]:
        paths = [path for path, _, _ in self._cluster.tree.dump()]
        return [p for p in paths if p.count("/") > 1 or p == zk_paths.CONTROLLER]

    async def _spoil(self) -> None:
        path = self._random.choice([p for p in self._paths() if not p.startswith(KEPT)])
        await self._session.set(path, self._random.choice(JUNK))

    async def _remove(self) -> None:
        path = self._random.choice([p for p in self._paths() if not p.startswith(KEPT)])
        for below in sorted(self._paths(), reverse=True):
            if below == path or below.startswith(f"{path}/"):
                await self._session.delete(below)

    async def _odd_topic(self) -> None:
        """JSON that can be read, and says what no Kafka ever writes."""
        numbers = self._random.sample([-1, 0, 1, 2, 7, 2**31], self._random.randint(0, 3))
        odd = [[], [0], [1, 1], [-1], [99], [0, 99, 2], [2**31]]
        partitions = {str(number): self._random.choice(odd) for number in numbers}
        document = {"version": self._random.choice([1, 2, 3, 3]), "partitions": partitions}
        if self._random.random() < 0.6:
            document["topic_id"] = self._random.choice([uuid_text(uuid4()), "short", 5])
        if self._random.random() < 0.3:
            document["adding_replicas"] = {"0": [2]}
            document["removing_replicas"] = {"0": [0], "9": [1]}
        await self._put(f"/brokers/topics/t{self._random.randint(0, 4)}", document)

    async def _odd_state(self) -> None:
        topic, partition = self._random.randint(0, 3), self._random.randint(0, 2)
        document = {
            "controller_epoch": self._random.choice([0, 1, 2]),
            "leader": self._random.choice([-2, -1, 0, 1, 2, 50]),
            "version": 1,
            "leader_epoch": self._random.choice([-1, 0, 3, 2**30]),
            "isr": self._random.choice([[], [0], [50], [0, 0], [2, 1]]),
        }
        await self._put(f"/brokers/topics/t{topic}/partitions/{partition}/state", document)

    async def _odd_broker(self) -> None:
        """A registration that no broker makes: of one that does not exist, or in its place."""
        end_points = [
            [],
            ["PLAINTEXT://h:1"],
            ["FOO://h:1"],
            ["PLAINTEXT://:0"],
            ["PLAINTEXT://[::1]:1"],
            ["//"],
            ["PLAINTEXT://h:99999"],
        ]
        document = {
            "version": self._random.choice([1, 5, 5, 5, 6]),
            "host": self._random.choice([None, "h", 5]),
            "port": self._random.choice([-1, 9092, "x"]),
            "endpoints": self._random.choice(end_points),
            "rack": self._random.choice([None, "r", 7]),
        }
        if self._random.random() < 0.5:
            protocol = self._random.choice(["PLAINTEXT", "SSL", "ODD", 3])
            document["listener_security_protocol_map"] = {"PLAINTEXT": protocol, "FOO": protocol}
        broker_id = self._random.choice([0, 1, 2, 7, 8, 2**31 - 1])
        await self._put(f"/brokers/ids/{broker_id}", document)

    async def _ask(self) -> None:
        topic = f"t{self._random.randint(0, 4)}"
        partition = {"topic": topic, "partition": self._random.randint(-1, 2)}
        choice = self._random.randrange(5)
        if choice == 0:
            await self._put(f"/admin/delete_topics/{topic}", {})
        elif choice == 1:
            replicas = self._random.choice([[], [0], [2, 2], [7], [1, 0, 2]])
            document = {"version": 1, "partitions": [{**partition, "replicas": replicas}]}
            await self._put("/admin/reassign_partitions", document)
        elif choice == 2:
            await self._put(
                "/admin/preferred_replica_election", {"version": 1, "partitions": [partition]}
            )
        elif choice == 3:
            path = f"/isr_change_notification/isr_change_{self._random.randrange(10**10):010}"
            await self._put(path, {"version": 1, "partitions": [partition]})
        else:
            path = f"/log_dir_event_notification/log_dir_event_{self._random.randrange(10**10):010}"
            await self._put(path, {"version": 1, "broker": self._random.randint(-1, 4), "event": 1})

    async def _put(self, path: str, document: object) -> None:
        data = json.dumps(document).encode()
        try:
            await self._session.set(path, data)
        except NoNodeError:
            await self._session.create(path, data, make_parents=True)

    # ---- afterwards

    async def _mend_brokers(self) -> None:
        """Brokers whose node was removed register anew, as they do when their session ends."""
        for broker in self._cluster.brokers.values():
            path = zk_paths.broker_path(broker.broker_id)
            if await self._session.exists(path) is not None:
                await self._session.delete(path)
            if await self._session.exists(zk_paths.BROKER_IDS) is None:
                await self._session.create(zk_paths.BROKER_IDS, make_parents=True)
            if await self._session.exists(zk_paths.TOPICS) is None:
                await self._session.create(zk_paths.TOPICS, make_parents=True)
            await broker.register()
        for _ in range(10):
            await asyncio.sleep(0.001)
            await self._cluster.settle()

    async def _found_wrong(self) -> list[str]:
        wrong = [*self._wrong_seats(), *self._not_to_be_sent()]
        for broker in self._cluster.brokers.values():
            states = broker.metadata.partition_states("after")
            if not states or states[0].leader < 0:
                wrong.append(f"broker {broker.broker_id} knows no leader of a new topic")
        return wrong

    def _not_to_be_sent(self) -> Iterator[str]:
        for _, request in self._cluster.requests:
            try:
                encode(request, NEWEST[type(request)])
            except Exception as error:
                yield f"{type(request).__name__} cannot be sent: {error!r}"

    def _wrong_seats(self) -> Iterator[str]:
        active = [b.broker_id for b in self._cluster.brokers.values() if b.controller.is_active]
        if len(active) != 1:
            yield f"controllers: {active}"
        for broker in self._cluster.brokers.values():
            if broker.controller.is_doubtful:
                yield f"controller {broker.broker_id} still reads the cluster anew"


def hunt(first_seed: int, rounds: int) -> list[str]:
    """Returns what was found, each with its seed."""
    found = []
    for seed in range(first_seed, first_seed + rounds):
        found += [f"seed {seed}: {wrong}" for wrong in asyncio.run(HandEdits(seed).play())]
    return found


def without_waiting() -> None:
    """Let nothing wait that waits for better times."""
    kafka_controller.GIVE_UP_BACKOFF_S = kafka_controller.RETRY_BACKOFF_S = 0.0
    controller_channel_manager.RETRY_BACKOFF_S = 0.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    without_waiting()
    for line in hunt(options.seed, options.rounds):
        print(line)
