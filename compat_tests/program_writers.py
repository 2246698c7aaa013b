"""Writers that are programs of their own."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from pathlib import Path

from compat_tests import apache_kafka
from compat_tests.writers import DELIVERY_TIMEOUT_S, Acknowledged


class JavaWriter:
    """Apache Kafka's VerifiableProducer, idempotent as the Java producer is by default."""

    is_idempotent = True

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        self.topic = topic
        self.errors: list[str] = []
        self.acknowledged = Acknowledged(self.errors)
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
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
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
        self._settings.unlink()
