"""Apache Kafka itself, fetched with Maven: its command-line tools as clients, and a broker to
compare with.

Knows nothing of kbroker.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from compat_tests.running.class_archive import SHORT_LIVED, ClassArchive
from compat_tests.running.prerequisites import maven_jars, require_program

NEWEST = "4.3.1"  # KRaft
ZOOKEEPER_LINE = "3.9.2"  # the last line with ZooKeeper mode

BROKER = "kafka.Kafka"  # its main class
FIRST_PORT, PORTS = 15_000, 17_000
# Of 128 MB, which a broker fills with zeros as it starts, and which nobody here has the keys for.
CLEANER_BYTES = 4 * 1024**2
# Of the 50 partitions of each, whose logs take time to make and to close.
_SMALL = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.dedupe.buffer.size": str(CLEANER_BYTES),
}


def jars(version: str = NEWEST) -> Path:
    """The folder with Kafka's jars, fetched on first use; several processes may ask at once."""
    require_program("java", "install a Java 17 or 21 runtime")
    parts = (f"org.apache.kafka:{part}:{version}" for part in ("kafka_2.13", "kafka-tools"))
    return maven_jars(f"apache-kafka-{version}", *parts)


def java_command(
    main_class: str, *args: str, version: str = NEWEST, heap: str = "256m"
) -> list[str]:
    """The command line that runs one of Kafka's main classes."""
    flags = [f"-Xmx{heap}", *SHORT_LIVED, *class_archive(main_class, version).using()]
    class_path = [f"{jars(version)}/*"]
    if main_class == BROKER:
        # 4.3.1's jars bring no logger, so it gets that of 3.9.2; Java passes over an archive that was
        # made with other jars, so that those who read no log have it as well.
        class_path += map(str, jars(ZOOKEEPER_LINE).glob("*reload4j*.jar"))
    return ["java", *flags, "-cp", ":".join(class_path), main_class, *args]


def class_archive(main_class: str, version: str) -> ClassArchive:
    """Classes of a broker, or those that all tools and clients have in common."""
    return ClassArchive(jars(version), "broker" if main_class == BROKER else "tools")


def run_tool(
    main_class: str,
    *args: str,
    version: str = NEWEST,
    stdin: str | None = None,
    timeout_s: float = 110,
    java_options: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end and return what it printed."""
    command = java_command(main_class, *args, version=version)
    archive = class_archive(main_class, version)
    command[1:1] = [*archive.making(), *java_options]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode == 0:
        archive.keep()
    return done


def free_port() -> int:
    """A port that nobody listens on at this moment, and that is given to nobody else soon: it lies
    below those that the system gives to connections, and all processes of this user take turns.
    """
    with (Path(tempfile.gettempdir()) / f"kbroker-test-ports-{os.getuid()}").open("a+") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)
        turns.seek(0)
        last = int(turns.read() or 0)
        port = next(filter(_is_free, (FIRST_PORT + (last + n) % PORTS for n in range(1, PORTS))))
        turns.truncate(0)
        turns.write(str(port - FIRST_PORT))
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def broker(
    version: str = NEWEST,
    settings: dict[str, str] | None = None,
    listeners: dict[str, int] | None = None,
    *,
    quick: bool = True,
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A KRaft broker with Kafka's defaults and one-replica internal topics: yields (bootstrap,
    process). `listeners`: ports of further ones by security protocol. A `quick` one starts with a
    third of the processor's time, and has few partitions of internal topics; what is measured takes
    the Java options and the partitions that Kafka ships.
    """
    directory = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
    port, controller_port = free_port(), free_port()
    ports = {"PLAINTEXT": port, **(listeners or {})}
    clients = ",".join(f"{name}://127.0.0.1:{at}" for name, at in ports.items())
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": clients,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in ports)]
        ),
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **(_SMALL if quick else {}),
        **(settings or {}),
    }
    properties = directory / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    _format(directory / "data", properties, f"kbrokerCompareRun{port:05}", version)
    if quick:
        command = java_command(BROKER, str(properties), version=version, heap="512m")
    else:
        flags = ["-Xmx1g", "-Xms1g", "-XX:+UseG1GC"]
        command = ["java", *flags, "-cp", f"{jars(version)}/*", BROKER, str(properties)]
    with (directory / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for_port(port, process)
        yield f"127.0.0.1:{port}", process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _format(data: Path, properties: Path, cluster_id: str, version: str) -> None:
    """Prepare the data directory of a new cluster. Kafka's tool, a second of the processor's time,
    does it once for each version: what it writes is copied for the clusters that follow.
    """
    kept = jars(version) / "formatted"
    if kept.is_dir() and f"log.dirs={data}\n" in properties.read_text():
        shutil.copytree(kept, data)
        meta = data / "meta.properties"
        meta.write_text(re.sub("(?m)^cluster.id=.*", f"cluster.id={cluster_id}", meta.read_text()))
        return
    tool = "kafka.tools.StorageTool"
    run_tool(tool, "format", "-t", cluster_id, "-c", str(properties), version=version)
    if data.is_dir():
        copied = Path(tempfile.mkdtemp(dir=kept.parent))
        shutil.copytree(data, copied, dirs_exist_ok=True)
        with suppress(OSError):  # another process has kept its own meanwhile
            copied.rename(kept)
        shutil.rmtree(copied, ignore_errors=True)


def wait_for_port(
    port: int, process: subprocess.Popen[bytes] | subprocess.Popen[str], timeout_s: float = 60
) -> None:
    """Return when something accepts connections on the port; raise when the process ended before."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port} after {timeout_s} s")
