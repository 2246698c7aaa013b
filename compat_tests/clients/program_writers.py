"""Writers that are programs of their own: one for each family of clients that is not Python's.

Each tells of its records as Apache Kafka's VerifiableProducer does, one JSON object a line.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
import threading
from pathlib import Path

from compat_tests.clients import go_clients, node_clients
from compat_tests.clients.writers import DELIVERY_TIMEOUT_S, PARTITIONS, Acknowledged
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import require_program

ENDED_WELL = (0, 143)  # Java's answer to SIGTERM is 143


class ProgramWriter:
    """A program that writes until it gets SIGTERM. An error that it tells of ends the hunt, so no
    program has to go on after one; none of them ever sends a record again by itself.
    """

    is_idempotent = True

    def __init__(self, topic: str, command: list[str], stderr: int | None = None) -> None:
        self.topic = topic
        self.errors: list[str] = []
        self.acknowledged = Acknowledged(self.errors)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        atexit.register(self._process.kill)  # a hunt that fails finishes no writer
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("name") == "producer_send_success":
                self.acknowledged.take(event["partition"], event["offset"], int(event["value"]))
            elif event.get("name") == "producer_send_error":
                self.errors.append(event["message"])

    def finish(self) -> None:
        self._process.terminate()  # it sends what it has and says so before it ends
        self._thread.join(DELIVERY_TIMEOUT_S)
        self._process.wait(DELIVERY_TIMEOUT_S)
        atexit.unregister(self._process.kill)
        if self._process.returncode not in ENDED_WELL:
            self.errors.append(f"the writer ended with {self._process.returncode}")


class JavaWriter(ProgramWriter):
    """Apache Kafka's VerifiableProducer, idempotent as the Java producer is by default."""

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as settings:
            settings.write(f"delivery.timeout.ms={DELIVERY_TIMEOUT_S * 1000}\n")
            settings.write("enable.idempotence=true\nretries=2147483647\n")
            settings.write("reconnect.backoff.max.ms=200\n")
        self._settings = Path(settings.name)
        command = apache_kafka.java_command(
            "org.apache.kafka.tools.VerifiableProducer",
            "--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1",
            "--throughput", str(records_per_s), "--producer.config", settings.name,
        )  # fmt: skip
        super().__init__(topic, command, subprocess.DEVNULL)

    def finish(self) -> None:
        super().finish()
        self._settings.unlink()


class GoWriter(ProgramWriter):
    """franz-go, idempotent with acks=all and without a limit of retries as it is by default. It
    would go on under a new epoch where it finds records lost; `go/writer` tells of that as an error.
    """

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        program = go_clients.kept_program("writer")
        super().__init__(topic, [str(program), *arguments(bootstrap, topic, records_per_s)])


class NodeWriter(ProgramWriter):
    """KafkaJS, idempotent with acks=-1 and without a limit of retries.

    `node/writer.js` sends to one partition at a time. Of a request to several, KafkaJS 2.2.4 may
    never send the records of one and report success all the same, without an answer for it: when a
    leader has answered, another has not, and the first one leads its partition too by the time that
    KafkaJS tries again. It does so with Apache Kafka as well.
    """

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        node = require_program("node", "install Node.js 20 or newer")
        program = str(node_clients.folder() / "writer.js")
        super().__init__(topic, [node, program, *arguments(bootstrap, topic, records_per_s)])


def arguments(bootstrap: str, topic: str, records_per_s: int) -> list[str]:
    """Return what `go/writer` and `node/writer.js` are told."""
    numbers = (PARTITIONS, records_per_s, DELIVERY_TIMEOUT_S)
    return [bootstrap, topic, *map(str, numbers)]
