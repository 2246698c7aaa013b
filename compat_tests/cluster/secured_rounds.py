"""A cluster of kbroker and Apache Kafka 3.9.2 that becomes secure, and stays so, under load: over a
ZooKeeper that asks who comes, its brokers and its producer move from PLAINTEXT to SASL_SSL one by one;
then brokers are killed, get new certificates while nothing of a connection breaks, and learn of users,
which are edited through either kind. Nothing acknowledged is lost or doubled, no produce fails, and all
nodes keep Kafka's rights.

    python -m compat_tests.cluster.secured_rounds --kills 20 --certificates 100 --edits 200 --seed 1
    python -m compat_tests.cluster.secured_rounds --kinds kbroker,kbroker,kbroker

Needs ss (iproute2) and openssl.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from compat_tests.clients.writers import LibrdkafkaWriter, Writer
from compat_tests.cluster.inside import INSIDE, OLD, OPEN, PASSWORD, PREFIX, USER, Inside
from compat_tests.cluster.mixed_rounds import MixedRounds
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import SETTINGS, await_in_sync, create
from compat_tests.cluster.secured_tree import SecuredTree, secured_tree
from compat_tests.cluster.user_edits import UserEdits
from compat_tests.faults.certificate_rounds import shown
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.waiting import until

CHROOT = "/secured-rounds"
KILLS = ("kill_leader", "kill_follower", "kill_controller", "kill_and_start")
MECHANISM = "SCRAM-SHA-512"
KEYSTORE = PREFIX + "ssl.keystore.location"
BROKER = 4  # the type of a resource
TOOL_USER, TOOL_PASSWORD = "of-kafka-configs", "tool-word"
HEARD = "kbroker.inter.broker.listeners"  # of no matter to Apache Kafka, which hears on all
_SETTLED_S = 1.0


class SecuredRounds(MixedRounds):
    """One cluster, which is open at first. `certificates` and `edits` are how many of them the
    faults of these names take.
    """

    def __init__(
        self, cluster: Cluster, tree: SecuredTree, inside: Inside, seed: int,
        *, records_per_s: int, certificates: int, edits: int,
    ) -> None:  # fmt: skip
        self._tree, self._inside = tree, inside
        self._records_per_s = records_per_s
        self._certificates, self._edits = certificates, edits
        self._moved: list[Writer] = []
        super().__init__(cluster, seed, {"load": self._open_writer})
        self.users = UserEdits(cluster, inside, self._draw)

    def _open_writer(self, topic: str) -> Writer:
        old = self._inside.addresses(self.cluster.ids, OLD)
        return LibrdkafkaWriter(old, topic, self._records_per_s)

    def _secured_writer(self, topic: str) -> Writer:
        addresses, client = self._inside.addresses(self.cluster.ids), self._inside.client()
        return LibrdkafkaWriter(addresses, topic, self._records_per_s, client)

    # ---- the faults

    def _move(self) -> None:
        """From PLAINTEXT to SASL_SSL: each broker restarts three times, and the producer moves, too."""
        brokers_user = [(USER, self.cluster.controller_id())]
        self.users.set_password(brokers_user, MECHANISM, PASSWORD)
        both = {HEARD: f"{OLD},{INSIDE}"}
        self._restart_each((OPEN, OLD, INSIDE), self._inside.offered() | both)
        self._restart_each((OPEN, OLD, INSIDE), {"inter.broker.listener.name": INSIDE})
        self._move_writer("load-secured")
        self._restart_each((OPEN, INSIDE), {HEARD: ""})

    def _restart_each(self, listeners: Sequence[str], settings: dict[str, str]) -> None:
        for number in self.cluster.ids:
            self.cluster.set_up(number, **self._inside.listeners(number, *listeners), **settings)
            self.cluster.restart(number)
            await_in_sync(self.cluster, *self.topics)
            self._await_more()

    def _move_writer(self, topic: str) -> None:
        create(self.cluster, topic, *self._orders(), segment_bytes="262144")
        self.topics.append(topic)
        (old,) = self.writers
        self.writers.append(self._secured_writer(topic))
        self._await_more()
        old.finish()
        check(old, read_all(self.cluster.bootstrap, old.topic))
        self.writers.remove(old)
        self._moved.append(old)

    def _renew_certificates(self) -> None:
        """New connections get them, and those that are there stay."""
        before = self._settled_connections()
        said = {number: len(broker.log_text()) for number, broker in self.cluster.brokers.items()}
        for turn in range(self._certificates):
            number = self.cluster.ids[turn % len(self.cluster.ids)]
            self._renew(number, turn // len(self.cluster.ids))
        self._await_more()
        gone = before - self._inside.connections()
        assert not gone, f"{len(gone)} of {len(before)} connections are gone: {gone}"
        for number, broker in self.cluster.brokers.items():
            news = broker.log_text()[said[number] :]
            bad = [line for line in news.splitlines() if " WARN" in line or " ERROR" in line]
            assert not bad, (number, bad[:5])

    def _settled_connections(self) -> set[tuple[str, str]]:
        seen = [self._inside.connections()]

        def is_settled() -> bool:
            time.sleep(_SETTLED_S)
            seen.append(self._inside.connections())
            return seen[-1] == seen[-2]

        until(is_settled, "connections stay")
        return seen[-1]

    def _renew(self, number: int, turn: int) -> None:
        """By turns with SIGHUP, AlterConfigs of the same path, and nothing; Apache Kafka looks at its
        file if it is altered.
        """
        port = int(self._inside.address(number).rpartition(":")[2])
        context = self._inside.context()
        before = shown(port, context)
        self._inside.renew(number)
        process = self.cluster.brokers[number].process
        if self.cluster.kinds[number] == "apache" or turn % 3 == 0:
            with self.cluster.wire(number) as wire:
                path = str(self._inside.certificate(number))
                wire.alter_config((BROKER, str(number)), KEYSTORE, path)
        elif turn % 3 == 1:
            assert process is not None
            process.send_signal(signal.SIGHUP)
        until(lambda: shown(port, context) != before, f"{number} shows the new certificate")

    def _use_kafka_configs(self) -> None:
        """Apache Kafka's tool makes a user, through ZooKeeper."""
        named = ("--entity-type", "users", "--entity-name", TOOL_USER, "--add-config")
        credentials = f"{MECHANISM}=[iterations=8192,password={TOOL_PASSWORD}]"
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self._tree.kafka_configs, CHROOT, *named, credentials)
            path = f"/config/users/{TOOL_USER}"
            until(lambda: self.cluster.tree.node(path), "the user is there", timeout_s=120)
            self.users.await_login(TOOL_USER, MECHANISM, TOOL_PASSWORD)
            done.result()

    def _edit_users(self) -> None:
        """By both kinds of brokers."""
        self.cluster.make_controller(self._others("kbroker")[0])
        self.users.run(self._edits)

    def _forget_password(self) -> None:
        """A broker that the others do not let in says so in one line, and follows as soon as it
        knows the password again.
        """
        number = self._others("apache")[0]
        self.cluster.set_up(number, **self._inside.offered("forgotten"))
        self.cluster.stop(number)
        others = [other for other in self._others("kbroker") if other != number]
        self.cluster.make_controller(others[0])
        self.cluster.start(number)  # and answers the controller's login before all else
        said = "no connection: the broker at 127.0.0.1:"
        log = self.cluster.brokers[number].log_text
        until(lambda: said in log(), "it says that it is not let in")
        lines = [line for line in log().splitlines() if said in line]
        assert len({line.partition(said)[2] for line in lines}) == len(lines) <= 2, lines
        assert f"refuses the login of {USER} with {MECHANISM} (" in lines[0]
        self.cluster.set_up(number, **self._inside.offered())
        self.cluster.restart(number)

    # ---- what must be true

    def _finish(self) -> None:
        super()._finish()
        for broker in self.cluster.brokers.values():
            assert PASSWORD not in broker.log_text()
        wrong = self._tree.wrong_rights(CHROOT)
        assert wrong == {}, (len(wrong), sorted(wrong.items())[:5])

    def told(self) -> str:
        """All figures."""
        moved = {writer.topic: writer.acknowledged.count for writer in self._moved}
        return (
            f"{super().told()}; acknowledged before the move {moved}; users were "
            f"refused for {max(self.users.refused_for_s, default=0):.2f} s at most after a write, "
            f"{len(self.users.refused_for_s)} times"
        )


def run(
    directory: Path, tree: SecuredTree, kinds: Sequence[str], faults: Sequence[str], seed: int,
    *, records_per_s: int = 300, certificates: int = 3, edits: int = 10,
) -> SecuredRounds:  # fmt: skip
    """Start a cluster, let it become secure, and disturb it."""
    inside = Inside(directory, "SASL_SSL", MECHANISM)
    # Java needs seconds for its first handshakes, also where it comes back to ZooKeeper.
    settings = SETTINGS | {
        "inter.broker.listener.name": OLD,
        "zookeeper.session.timeout.ms": "6000",
        # Or whoever tries until a broker knows the password waits for the answers to wrong ones.
        "connection.failed.authentication.delay.ms": "0",
    }

    def own(number: int) -> dict[str, str]:
        return inside.listeners(number, OPEN, OLD)

    with (
        _kafka_opts(tree.java_options),
        tree.cluster(directory, kinds, CHROOT, settings, own) as cluster,
    ):
        cluster.start()
        rounds = SecuredRounds(
            cluster, tree, inside, seed,
            records_per_s=records_per_s, certificates=certificates, edits=edits,
        )  # fmt: skip
        try:
            rounds.run(["move", *faults])
        finally:
            print(rounds.told(), flush=True)
        return rounds


@contextmanager
def _kafka_opts(options: str) -> Iterator[None]:
    """How brokers of kbroker hear of the login."""
    before = os.environ.get("KAFKA_OPTS")
    os.environ["KAFKA_OPTS"] = options
    try:
        yield
    finally:
        os.environ.pop("KAFKA_OPTS")
        os.environ.update({} if before is None else {"KAFKA_OPTS": before})


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.secured_rounds")
    parser.add_argument("--kinds", default="kbroker,kbroker,apache", help="of the brokers")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--certificates", type=int, default=100)
    parser.add_argument("--edits", type=int, default=200, help="of users")
    parser.add_argument("--records-per-s", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    logging.disable()  # what clients say while they try again
    draw, kinds = random.Random(options.seed), options.kinds.split(",")
    faults = [
        *(draw.choice(KILLS) for _ in range(options.kills)),
        *["renew_certificates"] * bool(options.certificates),
        *["use_kafka_configs", "edit_users"] * bool(options.edits and len(set(kinds)) > 1),
        "forget_password",
    ]
    with tempfile.TemporaryDirectory(prefix="secured-rounds-") as temporary:
        directory = options.keep or Path(temporary)
        with secured_tree(directory) as tree:
            rounds = run(
                directory, tree, kinds, faults, options.seed, records_per_s=options.records_per_s,
                certificates=options.certificates, edits=options.edits,
            )  # fmt: skip
    late = [each for each in rounds.users.refused_for_s if each > 1]
    assert not late, f"users were refused for {max(late):.2f} s, {len(late)} times"
    print("nothing was lost, nothing was doubled, no produce failed, all replicas are alike")


if __name__ == "__main__":
    main()
