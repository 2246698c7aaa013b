"""A cluster of broker processes over one ZooKeeper: kbroker, Apache Kafka 3.9.2, or both together;
started, stopped, killed, paused and resumed one by one, and seen through ZooKeeper's tree.

Knows nothing of kbroker. Nothing sleeps to prove a thing: `until` waits for a condition.

    with zookeeper_servers() as zookeeper:
        with Cluster(tmp_path, zookeeper, ["kbroker", "kbroker", "apache"]) as cluster:
            cluster.start()
            cluster.kill(cluster.controller_id())
            until(lambda: cluster.tree.controller_id() is not None)
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, NoNodeError, SessionExpiredError

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from compat_tests.wire.wire_client import CREATE_TOPICS, WireClient, code

SESSION_TIMEOUT_MS = 3_000
# What every broker is told, of either kind.
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "controlled.shutdown.enable": "true",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "1",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True)
class PartitionState:
    """What /brokers/topics/T/partitions/N/state says."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


class ZookeeperView:
    """The tree as ZooKeeper's own client sees it; outlives restarts of the server."""

    def __init__(self, connect: str) -> None:
        hosts, slash, chroot = connect.partition("/")
        self._chroot = slash + chroot
        self.client = KazooClient(hosts=hosts, timeout=30.0, connection_retry={"max_tries": -1})
        self.client.start(60)
        self.client.ensure_path(self._chroot or "/")

    def close(self) -> None:
        """End the session."""
        self.client.stop()
        self.client.close()

    def get(self, path: str) -> bytes | None:
        """The data of a node, None where there is no node."""
        found = self.node(path)
        return None if found is None else found[0]

    def node(self, path: str) -> tuple[bytes, Any] | None:
        """Data and ZnodeStat of a node."""
        with suppress(NoNodeError):
            data, stat = self._retry(self.client.get, self._chroot + path)
            return data or b"", stat
        return None

    def children(self, path: str) -> list[str]:
        """The names of a node's children, sorted; none where there is no node."""
        with suppress(NoNodeError):
            return sorted(self._retry(self.client.get_children, self._chroot + path))
        return []

    def create(self, path: str, data: bytes = b"", *, sequence: bool = False) -> None:
        """Make a node by hand."""
        self._retry(self.client.create, self._chroot + path, data, sequence=sequence)

    def set(self, path: str, data: bytes) -> None:
        """Change a node by hand."""
        self._retry(self.client.set, self._chroot + path, data)

    def delete(self, path: str) -> None:
        """Delete a node by hand."""
        self._retry(self.client.delete, self._chroot + path)

    def broker_ids(self) -> list[int]:
        """The registered brokers."""
        return sorted(int(name) for name in self.children("/brokers/ids"))

    def broker_epoch(self, broker_id: int) -> int | None:
        """The id of the transaction that made the broker's registration."""
        found = self.node(f"/brokers/ids/{broker_id}")
        return None if found is None else int(found[1].czxid)

    def session_id(self, broker_id: int) -> int | None:
        """The session that owns a broker's registration."""
        found = self.node(f"/brokers/ids/{broker_id}")
        return None if found is None else int(found[1].ephemeralOwner)

    def controller_id(self) -> int | None:
        """Who is controller."""
        data = self.get("/controller")
        return None if data is None else int(json.loads(data)["brokerid"])

    def controller_epoch(self) -> int:
        """How many controllers there were."""
        return int(self.get("/controller_epoch") or 0)

    def topics(self) -> list[str]:
        """All topics."""
        return self.children("/brokers/topics")

    def assignment(self, topic: str) -> dict[int, list[int]] | None:
        """The replicas of each partition of a topic."""
        data = self.get(f"/brokers/topics/{topic}")
        if data is None:
            return None
        return {int(number): ids for number, ids in json.loads(data)["partitions"].items()}

    def partition_state(self, topic: str, partition: int) -> PartitionState | None:
        """Leader and in-sync replicas of a partition."""
        data = self.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if data is None:
            return None
        found = json.loads(data)
        return PartitionState(
            found["leader"], found["leader_epoch"], tuple(found["isr"]), found["controller_epoch"]
        )

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition that has a state."""
        states = {n: self.partition_state(topic, n) for n in self.assignment(topic) or {}}
        return {number: state.leader for number, state in states.items() if state is not None}

    def config(self, kind: str, name: str) -> dict[str, str]:
        """The overrides of an entity; none where there is no node."""
        data = self.get(f"/config/{kind}/{name}")
        return dict(json.loads(data)["config"]) if data else {}

    def _retry(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Over connections and sessions that are lost."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.client.retry(call, *args, **options)
            except (SessionExpiredError, ConnectionClosedError):
                assert time.monotonic() < deadline, "ZooKeeper did not come back"
                time.sleep(0.05)


class Cluster:
    """Brokers with the ids 1, 2, ...; `kinds` says of each what it is. `java_options` are for those
    of Apache Kafka; `own_settings` gives each broker more by its id. Brokers connect to ZooKeeper as
    `brokers_connect` says, where that is another port than the one by which the tree is seen.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: ZooKeeperServers,
        kinds: Iterable[str],
        settings: dict[str, str] | None = None,
        chroot: str = "/kafka",
        java_options: Iterable[str] = (),
        *,
        own_settings: Callable[[int], dict[str, str]] | None = None,
        brokers_connect: str = "",
    ) -> None:
        self._own_settings = own_settings or (lambda _: {})
        self._java_options = tuple(java_options)
        self.directory = directory
        self.zookeeper = zookeeper
        self.connect = connect = zookeeper.connect(chroot)
        self._brokers_connect = brokers_connect or connect
        self.tree = ZookeeperView(connect)
        self.kinds = dict(enumerate(kinds, start=1))
        self._settings = SETTINGS | (settings or {})
        self.brokers = {number: self._broker(number, kind) for number, kind in self.kinds.items()}
        self.paused: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def ids(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return sorted(self.brokers)

    @property
    def bootstraps(self) -> list[str]:
        """The addresses of all brokers, in the order of their ids."""
        return [self.brokers[number].bootstrap for number in self.ids]

    @property
    def bootstrap(self) -> str:
        """All addresses, as clients take them."""
        return ",".join(self.bootstraps)

    def address(self, broker_id: int) -> str:
        """The address of one broker."""
        return self.brokers[broker_id].bootstrap

    def start(self, *broker_ids: int) -> None:
        """Start brokers (all, unless some are named); returns when all of them serve."""
        # Several JVMs that start at once may be too slow for their own sessions.
        with ThreadPoolExecutor(1 if "apache" in self.kinds.values() else len(self.ids)) as pool:
            for done in [pool.submit(self._start_one, number) for number in broker_ids or self.ids]:
                done.result()

    def _start_one(self, broker_id: int) -> None:
        """A JVM that is still too slow for its session ends itself, and is started again; and it
        refuses to start while it is still registered.
        """
        attempts = 3 if self.kinds[broker_id] == "apache" else 1
        if self.kinds[broker_id] == "apache":
            until(lambda: broker_id not in self.tree.broker_ids(), f"{broker_id} is forgotten")
        for left in reversed(range(attempts)):
            try:
                self.brokers[broker_id].start()
                return
            except RuntimeError as error:
                if not left or "Session expired" not in str(error):
                    raise

    def set_up(self, broker_id: int, **settings: str) -> None:
        """Settings that a broker has from its next start on; `broker_rack` is broker.rack."""
        values = {name.replace("_", "."): value for name, value in settings.items()}
        broker = self.brokers[broker_id]
        if isinstance(broker, ApacheBroker):
            broker.settings.update(values)
        else:
            broker.options += tuple(_overrides(values))

    def become(self, broker_id: int, kind: str) -> None:
        """Stop a broker, unless it was killed, and start one of that kind under its id, on its port
        and directory.
        """
        old = self.brokers[broker_id]
        if self.is_running(broker_id):
            old.stop()
        self.kinds[broker_id] = kind
        new = self.brokers[broker_id] = self._broker(broker_id, kind)
        new.data, new.port = old.data, old.port
        self.start(broker_id)

    def restart(self, broker_id: int) -> None:
        """A clean stop and a start."""
        self.stop(broker_id)
        self.start(broker_id)

    def stop(self, *broker_ids: int) -> None:
        """Stop brokers cleanly, one after the other."""
        for number in broker_ids or self.ids:
            self.brokers[number].stop()

    def kill(self, broker_id: int) -> None:
        """SIGKILL, and wait until the process is gone."""
        process = self._process(broker_id)
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
        self.paused.discard(broker_id)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: the process lives and does nothing."""
        self._process(broker_id).send_signal(signal.SIGSTOP)
        self.paused.add(broker_id)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self.paused.discard(broker_id)
        self._process(broker_id).send_signal(signal.SIGCONT)

    def cut(self, broker_id: int) -> list[str]:
        """Break all connections of a broker: of clients, with other brokers, to ZooKeeper; the
        addresses they led to. Needs ss (iproute2) and a kernel that lets it break connections.
        """
        listed = tcp_connections("state", "established", "-p")
        owner = f"pid={self._process(broker_id).pid},"
        pairs = [line.split()[2:4] for line in listed if owner in line]
        own = " or ".join(f"( src {near} and dst {far} )" for near, far in pairs)
        cut = [line.split()[4] for line in tcp_connections("-K", *own.split())] if own else []
        return [address.replace("[::ffff:127.0.0.1]", "127.0.0.1") for address in cut]  # of Java

    def expire(self, broker_id: int) -> int:
        """End the session of a broker's registration; the broker epoch it had. Returns at once."""
        epoch = until(lambda: self.tree.broker_epoch(broker_id), f"broker {broker_id} registered")
        session_id = self.tree.session_id(broker_id)
        if session_id is not None:
            self.zookeeper.expire_session(session_id)
        return epoch

    def is_registered_after(self, broker_id: int, epoch: int) -> bool:
        """Whether a broker has a newer registration."""
        return (self.tree.broker_epoch(broker_id) or 0) > epoch

    def create_topic(self, topic: str, *leaders: int, **configs: str) -> None:
        """Create a topic whose partition N has its one replica on the N-th broker named, and wait
        until every running broker says so.
        """
        assignments = [{"partition_index": n, "broker_ids": [b]} for n, b in enumerate(leaders)]
        entries = [{"name": name.replace("_", "."), "value": v} for name, v in configs.items()]
        wanted = {"name": topic, "num_partitions": -1, "replication_factor": -1,
                  "assignments": assignments, "configs": entries}  # fmt: skip
        with self.wire(self.controller_id()) as wire:
            answer = wire.call(CREATE_TOPICS, 5, topics=[wanted], timeout=20_000)
        said = answer.topics[0]
        assert code(said.error_code, said.error_message) == "0"
        self.wait_for_leaders(topic, dict(enumerate(leaders)))

    def wait_for_leaders(self, topic: str, leaders: dict[int, int]) -> None:
        """Wait until every running broker's metadata has these leaders of a topic's partitions."""
        for number in self.ids:
            if self.is_running(number) and number not in self.paused:
                told = partial(self._are_leaders, number, topic, leaders)
                until(told, f"{leaders} told by broker {number}")

    def leaders_told(self, broker_id: int, topic: str) -> dict[int, int]:
        """The leaders of a topic as one broker's metadata has them; -1 where there is none."""
        with self.wire(broker_id) as wire:
            partitions = wire.metadata(topic).partitions
        return {p.partition_index: p.leader_id for p in partitions}

    def _are_leaders(self, broker_id: int, topic: str, leaders: dict[int, int]) -> bool:
        return self.leaders_told(broker_id, topic) == leaders

    @contextmanager
    def wire(self, broker_id: int) -> Iterator[WireClient]:
        """A bare connection to a broker."""
        client = WireClient(self.address(broker_id))
        try:
            yield client
        finally:
            client.close()

    def is_running(self, broker_id: int) -> bool:
        """Whether there is a process."""
        process = self.brokers[broker_id].process
        return process is not None and process.poll() is None

    def controller_id(self) -> int:
        """Who is controller; waits for one."""
        return until(self.tree.controller_id, "a controller")

    def make_controller(self, wanted: int) -> None:
        """Take the seat away until the wanted broker has it: who sits down is a matter of luck."""

        def is_controller() -> bool:
            if self.tree.controller_id() == wanted:
                return True
            self.tree.delete("/controller")
            return self.controller_id() == wanted

        until(is_controller, f"broker {wanted} is controller")

    def heal(self) -> None:
        """All brokers run, are registered, and one of them is controller."""
        for number in list(self.paused):
            self.resume(number)
        dead = [number for number in self.ids if not self.is_running(number)]
        if dead:
            self.start(*dead)
        until(lambda: self.tree.broker_ids() == self.ids, "all brokers registered")
        self.controller_id()

    def close(self) -> None:
        """Kill what runs, and end the session that looks at the tree."""
        for number in self.ids:
            if self.is_running(number):
                self.kill(number)
        self.tree.close()

    def _process(self, broker_id: int) -> Any:
        process = self.brokers[broker_id].process
        assert process is not None, f"broker {broker_id} was never started"
        return process

    def _broker(self, number: int, kind: str) -> BrokerProcess | ApacheBroker:
        data = self.directory / f"{kind}-{number}" / "data"
        own = self._settings | {"broker.id": str(number)} | self._own_settings(number)
        if kind == "apache":
            broker = ApacheBroker(
                data, self._brokers_connect, settings=own, java_options=self._java_options
            )
            broker.port = _first_port(own)
            return broker
        return BrokerProcess(
            data, ("--zookeeper", self._brokers_connect, "--log-level", "info", *_overrides(own))
        )


def _first_port(settings: dict[str, str]) -> int:
    """The port of the first listener that is set, 0 for none."""
    return int(settings.get("listeners", ":0").split(",")[0].rpartition(":")[2])


def _overrides(settings: dict[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]


def tcp_connections(*options: str) -> list[str]:
    """TCP connections as ss (iproute2) lists them, or those it has broken: a line of each."""
    command = ["ss", "-H", "-t", "-n", *options]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
