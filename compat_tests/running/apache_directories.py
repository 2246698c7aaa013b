"""Apache Kafka brokers over data directories that outlive them: started, stopped, killed and started
again, with ZooKeeper (3.9.2) or with KRaft (both), and what they logged.

Knows nothing of kbroker.

    broker = ApacheBroker(tmp_path / "data", fresh_chroot())
    broker.start()              # broker.bootstrap; broker.stop(); broker.stop(signal.SIGKILL)
    broker.complaints()         # lines of its log that speak of damage
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.commands.tool_runner import run_tool
from compat_tests.running.apache_kafka import (
    BROKER,
    CLEANER_BYTES,
    NEWEST,
    ZOOKEEPER_LINE,
    class_archive,
    free_port,
    java_command,
)
from compat_tests.running.class_archive import ClassArchive
from compat_tests.wire.wire_client import METADATA, WireClient

BROKER_ID = 1
CLUSTER_ID = "kbrokerCompareRun00000"
START_TIMEOUT_S = 120  # a JVM on a busy machine

# `[time] LEVEL message (logger)`: what the parts that read data directories say, and which of it means
# that a directory is not as a clean stop leaves it.
_LINE = re.compile(r"^\[[^\]]+\] (?P<level>[A-Z]+) (?P<message>.*) \((?P<logger>[\w.$]+)\)$")
_READERS = re.compile(
    r"kafka\.(log|cluster|coordinator)\.|kafka\.server\.(ReplicaManager|KafkaServer)"
    r"|org\.apache\.kafka\.(storage|coordinator|common\.record)\."
)
_DAMAGE = re.compile(
    r"corrupt|Recovering|Attempting recovery|rebuilding (indexes|the index)|not found in|sanity"
    r"|[Ii]nvalid|\bCRC\b|[Tt]runcating|[Uu]nable to (?!read the broker epoch)|Exception|[Dd]eleted orphan"
)

_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.min.compaction.lag.ms": str(10**12),  # it cleans nothing, unless a topic says so
    "log.cleaner.dedupe.buffer.size": str(CLEANER_BYTES),
}
_LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass
class ApacheBroker:
    """One broker of Apache Kafka. With `zookeeper` (address and chroot) it is 3.9.2 in ZooKeeper
    mode, else `version` in KRaft mode, whose own log lies beside the data directory.
    """

    data: Path
    zookeeper: str | None = None
    version: str = NEWEST
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    port: int = 0
    java_options: tuple[str, ...] = ()  # after those that make a short run cheap
    _archive: ClassArchive | None = field(default=None, init=False, repr=False)
    _run_begins: int = field(default=0, init=False, repr=False)  # in the log

    def __post_init__(self) -> None:
        if self.zookeeper is not None:
            self.version = ZOOKEEPER_LINE

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The output of all runs."""
        return self.data.parent / f"{self.data.name}-apache.log"

    def start(self) -> None:
        """Start it; returns when it serves. Raises RuntimeError with its log when it ends before."""
        self.port = self.port or free_port()
        properties = self.data.parent / f"{self.data.name}-apache.properties"
        properties.parent.mkdir(parents=True, exist_ok=True)
        values = _SETTINGS | self._mode() | {"log.dirs": str(self.data)} | self.settings
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        if self.zookeeper is None:
            self._format(properties)
        command = java_command(BROKER, str(properties), version=self.version, heap="512m")
        self._add_logging(command)
        command[command.index("-cp") : command.index("-cp")] = self.java_options
        self._archive = class_archive(BROKER, self.version)
        command[1:1] = self._archive.making()
        self._run_begins = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        _wait(lambda: " started (kafka.server.Kafka" in self.log_text(), self.process, self.log)
        # It may still know of no controller, and librdkafka then waits for minutes to ask again.
        _wait(self._knows_a_controller, self.process, self.log)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it and wait for its end; SIGKILL leaves the directory unclean."""
        assert self.process is not None
        self.process.send_signal(how)
        try:
            self.process.wait(60)
            if self._archive is not None:
                self._archive.keep()
        finally:
            self.process.kill()
            self.process.wait()

    def log_text(self) -> str:
        """The log of the run that is on, or was last."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._run_begins :].decode(errors="replace")

    def complaints(self) -> list[str]:
        """List what its log says of damage, recovery or trouble; nothing for an intact directory."""
        lines = map(_LINE.match, self.log_text().splitlines())
        return [
            line["message"]
            for line in lines
            if line is not None
            and _READERS.match(line["logger"])
            and "partition=__cluster_metadata-0" not in line["message"]
            and (line["level"] in {"WARN", "ERROR", "FATAL"} or _DAMAGE.search(line["message"]))
        ]

    def _knows_a_controller(self) -> bool:
        client = WireClient(self.bootstrap)
        metadata = client.call(METADATA, 1, topics=[])
        client.close()
        return bool(metadata.controller_id >= 0 and metadata.brokers)

    def _mode(self) -> dict[str, str]:
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        if self.zookeeper is not None:
            return {
                "broker.id": str(BROKER_ID),
                "zookeeper.connect": self.zookeeper,
                "zookeeper.session.timeout.ms": "2000",
                "controlled.shutdown.enable": "false",  # with nobody to take over it only waits
                "listeners": listener,
            }
        controller = free_port()
        return {
            "process.roles": "broker,controller",
            "node.id": str(BROKER_ID),
            "controller.quorum.voters": f"{BROKER_ID}@127.0.0.1:{controller}",
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "broker.session.timeout.ms": "1500",  # so that it may come back soon after a kill
            "broker.heartbeat.interval.ms": "300",
            "metadata.log.dir": str(self.data.parent / f"{self.data.name}-metadata"),
        }

    def _format(self, properties: Path) -> None:
        done = run_tool(
            "kafka.tools.StorageTool", "format", "--ignore-formatted",
            "-t", CLUSTER_ID, "-c", str(properties), version=self.version,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"StorageTool could not format {self.data}: {done.stderr}")

    def _add_logging(self, command: list[str]) -> None:
        """Make it log what it does."""
        path = self.data.parent / f"{self.data.name}-log4j.properties"
        path.write_text(_LOG4J)
        command.insert(1, f"-Dlog4j.configuration=file:{path}")


def _wait(condition: object, process: subprocess.Popen[bytes], log: Path) -> None:
    assert callable(condition)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"did not start: {log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)
