"""Faults planted in front of and inside clusters of kbroker and of Apache Kafka 3.9.2, and sound
set-ups of both: `kbroker doctor` must name each fault, and nothing else, and find nothing in those.

    python -m compat_tests.commands.planted_faults [--kinds kbroker,apache]

A line for each; exit code 1 if one of them is not as it should be.
"""

from __future__ import annotations

import argparse
import http.server
import json
import logging
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.cluster.processes import Cluster
from compat_tests.commands.command_line import completed, run
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.forked_kbroker import ForkedKbroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.tls_door import TlsDoor, file_of_client, made_certificate
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import zookeeper_servers

KBROKER, APACHE = "kbroker", "apache"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=ann")
QUICK = ("request.timeout.ms=1000",)  # for listeners that say nothing
LATE = "import time\n_now = time.time_ns\ntime.time_ns = lambda: _now() - 3_600_000_000_000\n"
OFFSETS_REPLICAS = "offsets.topic.replication.factor"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "delete.topic.enable": "false",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "20000",
    "message.max.bytes": "1000",
    "min.insync.replicas": "3",
}


@dataclass
class Outcomes:
    """What the doctor said of one kind of broker."""

    kind: str
    wrong: int = 0
    named: set[str] = field(default_factory=set)

    def expect(self, what: str, wanted: Sequence[str], address: str, *given: str) -> None:
        """Ask the doctor about a cluster, with properties or options."""
        options = [each for each in given if each.startswith("--")]
        properties = [word for each in given if "=" in each for word in ("-X", each)]
        self.compare(what, wanted, examined("--bootstrap", address, *options, *properties))

    def compare(self, what: str, wanted: Sequence[str], found: Mapping[str, str]) -> None:
        """Print a line about what was found, with what it saw if that is not what was wanted."""
        is_right = sorted(found) == sorted(wanted)
        self.wrong += not is_right
        self.named |= set(wanted) if is_right else set()
        print(f"{'ok   ' if is_right else 'WRONG'} {self.kind:<8} {what}: {named(wanted)}")
        if not is_right:
            for code, seen in found.items():
                print(f"      found {code}: {seen}")
        sys.stdout.flush()


def named(codes: Sequence[str]) -> str:
    return ", ".join(codes) or "nothing"


def examined(*options: str) -> dict[str, str]:
    """Ask the doctor, and return each code that it found with the evidence."""
    done = run("doctor", *options, "--output", "json")
    if "Traceback" in done.err:
        return {"traceback": done.err}
    return {each["code"]: each["seen"] for each in json.loads(done.out)}


def examined_late(address: str) -> dict[str, str]:
    """The same by a machine whose clock is an hour behind."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(LATE)
        done = subprocess.run(
            [sys.executable, "-m", "kbroker.cli", "doctor", "--write", "--output", "json",
             "--bootstrap", address],
            env={"PYTHONPATH": folder, "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return {each["code"]: each["seen"] for each in json.loads(done.stdout)}


# ---- what else listens at ports


class QuietPage(http.server.BaseHTTPRequestHandler):
    """A web server that keeps no record of what it is asked."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def web_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietPage)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def full_listener() -> Iterator[str]:
    """A port at which no connection is taken any more."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            each = waiting.enter_context(socket.socket())
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def own_address() -> str:
    """An address of this machine that is not one of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


# ---- one broker of each kind


@contextmanager
def one_broker(
    kind: str,
    folder: Path,
    listeners: Mapping[str, str],
    advertised: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A broker with listeners HOST:PORT by name, and the addresses that it gives clients for some
    of them.
    """
    given = {**listeners, **(advertised or {})}
    protocols = {name: name if name in ("SSL", "SASL_PLAINTEXT") else "PLAINTEXT" for name in given}
    values = {
        "listeners": ",".join(f"{name}://{at}" for name, at in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{at}" for name, at in given.items()),
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
        "inter.broker.listener.name": "PLAINTEXT",
        **(settings or {}),
    }
    data = Path(tempfile.mkdtemp(dir=folder)) / "data"
    start = _apache if kind == APACHE else _kbroker
    with start(data, int(listeners["PLAINTEXT"].rpartition(":")[2]), values):
        yield


@contextmanager
def _apache(data: Path, port: int, values: dict[str, str]) -> Iterator[None]:
    broker = ApacheBroker(data, fresh_chroot(), settings=values, port=port)
    broker.start()
    try:
        yield
    finally:
        broker.stop(signal.SIGKILL)


@contextmanager
def _kbroker(data: Path, _port: int, values: dict[str, str]) -> Iterator[None]:
    data.parent.mkdir(exist_ok=True)
    file = data.parent / "server.properties"
    values = {"log.dirs": str(data), **values}
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = ForkedKbroker("start", str(file), **pipes)
    assert process.stdout is not None
    try:
        if b"listening on" not in process.stdout.readline():
            raise RuntimeError(f"the broker ended with {process.wait()}")
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def here() -> str:
    return f"127.0.0.1:{free_port()}"


# ---- faults


def of_a_cluster(kind: str, said: Outcomes, folder: Path) -> None:
    """Three brokers over a ZooKeeper, of which one goes, and then the ZooKeeper."""
    with (
        zookeeper_servers() as zookeeper,
        Cluster(folder, zookeeper, [kind] * 3, {OFFSETS_REPLICAS: "3"}) as cluster,
        web_server() as page,
        full_listener() as full,
    ):
        cluster.start()
        first, last = cluster.bootstraps[0], cluster.bootstraps[2]
        said.expect("sound: three brokers", [], cluster.bootstrap, "--write")
        said.expect("sound: by name", [], first.replace("127.0.0.1", "localhost"), "--write")
        said.expect("wrong port", ["port-closed"], here())
        said.expect("unknown name", ["name-unknown"], "no-such-host.invalid:9092")
        said.expect("takes no connection", ["unreachable"], full, *QUICK)
        said.expect("a web server", ["web-server"], page)
        said.expect("a ZooKeeper", ["zookeeper"], zookeeper.server.address)
        said.expect("TLS at a plain port", ["tls-on-plain-port"], first, "security.protocol=SSL")
        login = (*LOGIN, "sasl.password=x")
        said.expect("a login where none is", ["no-login-there"], first, *login)
        said.compare("another clock", ["clock"], examined_late(first))
        cluster.create_topic("one", 3)
        replicated = ("--partitions", "3", "--replication-factor", "3")
        for name, minimum in (("some", 1), ("all", 3)):
            setting = ("--config", f"min.insync.replicas={minimum}")
            made = run("topic", "create", name, *replicated, *setting, bootstrap=cluster.bootstrap)
            assert made.code == 0, made
        said.expect("no broker may be away", ["min-isr-equals-replicas"], first)
        cluster.pause(3)
        said.expect("a broker that hangs", ["silence"], last, *QUICK)
        cluster.resume(3)
        cluster.make_controller(1)
        cluster.kill(3)
        until(lambda: cluster.leaders_told(1, "one") == {0: -1}, "its partition has no leader")
        until(lambda: lacking(cluster, 3) >= 6, "it has left the ISRs")
        codes = ["no-leader", "under-min-isr", "under-replicated", "min-isr-equals-replicas"]
        said.expect("a broker that is gone", codes, first)
        cluster.start(3)
        cluster.make_controller(1)
        until(lambda: lacking(cluster, 3) == 0, "it is back in the ISRs")
        zookeeper.server.stop()
        said.expect("no ZooKeeper", ["no-controller"], first)


def lacking(cluster: Cluster, broker_id: int) -> int:
    """How many partitions have a replica on a broker that is not in sync."""
    count = 0
    for topic in cluster.tree.topics():
        for number, replicas in (cluster.tree.assignment(topic) or {}).items():
            state = cluster.tree.partition_state(topic, number)
            count += broker_id in replicas and (state is None or broker_id not in state.isr)
    return count


def of_addresses(kind: str, said: Outcomes, folder: Path) -> None:
    """One broker with a listener for each way to get in, or to be led astray."""
    own = own_address()
    other, nowhere = here(), here()
    certificate = made_certificate(folder, "ours", "IP:127.0.0.1")
    listeners = {name: here() for name in ("PLAINTEXT", "CLOSED", "UNKNOWN", "WEB", "OTHER")}
    listeners["LOOPBACK"] = f"{own}:{free_port()}"
    secured: dict[str, str] = {}
    if kind == APACHE:
        listeners |= {name: here() for name in ("SSL", "SASL_PLAINTEXT")}
        secured = {
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_ann="secret";',
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificate.with_name("ours-both.pem")),
        }
    with ExitStack() as running:
        page = running.enter_context(web_server())
        advertised = {
            "CLOSED": nowhere,
            "UNKNOWN": "no-such-host.invalid:9092",
            "WEB": page,
            "OTHER": other,
            "LOOPBACK": f"localhost:{nowhere.rpartition(':')[2]}",
        }
        running.enter_context(one_broker(kind, folder, {"PLAINTEXT": other}))
        running.enter_context(one_broker(kind, folder, listeners, advertised, secured))
        said.expect("sound: one broker", [], other, "--write")
        for name, codes in (
            ("CLOSED", ["advertised-port-closed"]),
            ("UNKNOWN", ["advertised-name-unknown"]),
            ("WEB", ["advertised-web-server"]),
            ("OTHER", ["advertised-other-cluster"]),
            ("LOOPBACK", ["advertised-port-closed", "advertised-loopback"]),
        ):
            said.expect(f"clients are given another address ({name})", codes, listeners[name])
        plain = listeners["PLAINTEXT"]
        said.expect("two clusters", ["mixed-clusters"], f"{plain},{other}")
        if kind == APACHE:
            of_logins(said, listeners)
            of_tls(said, certificate, listeners["SSL"])
        else:
            proxy = running.enter_context(TlsDoor(certificate))
            behind = here()
            proxied = one_broker(kind, folder, {"PLAINTEXT": behind}, {"PLAINTEXT": proxy.address})
            running.enter_context(proxied)
            proxy.port_behind = int(behind.rpartition(":")[2])
            of_tls(said, certificate, proxy.address)


def of_logins(said: Outcomes, listeners: Mapping[str, str]) -> None:
    door = listeners["SASL_PLAINTEXT"]
    said.expect("sound: with a login", [], door, "--write", *LOGIN, "sasl.password=secret")
    said.expect("a login is wanted", ["login-wanted"], door)
    said.expect("a wrong password", ["not-let-in"], door, *LOGIN, "sasl.password=guessed")


def of_tls(said: Outcomes, certificate: Path, door: str) -> None:
    """TLS of the broker itself, or of a proxy in front of one."""
    client = file_of_client(certificate.with_name("client.properties"), certificate)
    trusting = examined("--bootstrap", door, "--write", "--command-config", str(client))
    said.compare("sound: over TLS", [], trusting)
    said.expect("no TLS where it is spoken", ["plain-on-tls-port"], door)
    said.expect("an unknown authority", ["tls-refused"], door, "security.protocol=SSL")


def of_settings(kind: str, said: Outcomes, folder: Path) -> None:
    """Brokers with settings that bite, and one that loses a directory."""
    address = here()
    with one_broker(kind, folder, {"PLAINTEXT": address}, settings=SETTINGS):
        codes = [
            "replicas-above-brokers", "min-isr-above-default-replicas", "small-messages",
            "session-bounds", "slow-first-rebalance", "no-topics-on-use",
        ]  # fmt: skip
        said.expect("settings that bite", codes, address)
        said.expect("a topic that stays", [*codes, "topic-left"], address, "--write")
        codes += ["left-behind", "min-isr-above-replicas"]  # of the topic of offsets
        said.expect("a topic that stayed", codes, address)
    six = f"[::1]:{free_port()}"
    with one_broker(kind, folder, {"PLAINTEXT": here(), "SIX": six}):
        said.expect("sound: IPv6", [], six, "--write")
    directories = [folder / name for name in ("kept", "lost")]
    lists = {"log.dirs": ",".join(map(str, directories))}
    with one_broker(kind, folder, {"PLAINTEXT": address}, settings=lists):
        run("topic", "create", "t", "--partitions", "4", bootstrap=address)
        shutil.rmtree(directories[1])
        until(lambda: is_lost(address), "the directory is lost")
        said.expect("a directory that is gone", ["no-leader", "offline-directory"], address)


def is_lost(address: str) -> bool:
    """Whether a partition has no leader, which writing to all of them brings about."""
    with suppress(subprocess.TimeoutExpired):  # it waits for a leader
        completed(("produce", "t", "--bootstrap", address), "v\n" * 40, timeout_s=2)
    return run("health", bootstrap=address).code == 1


def main() -> None:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # its server is stopped on purpose
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--kinds", default=f"{KBROKER},{APACHE}")
    wrong = 0
    for kind in parser.parse_args().kinds.split(","):
        said = Outcomes(kind)
        for part in (of_a_cluster, of_addresses, of_settings):
            with tempfile.TemporaryDirectory() as folder:
                part(kind, said, Path(folder))
        print(f"{kind}: {len(said.named)} kinds of findings, {said.wrong} wrong")
        wrong += said.wrong
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
