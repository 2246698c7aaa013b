"""The Kafka libraries of Node programs (KafkaJS, @platformatic/kafka), each through the whole story
of `node/`.
"""

from __future__ import annotations

from compat_tests import node_clients
from compat_tests.clients import run
from compat_tests.prerequisites import require_program


def test_node_clients_live_their_whole_story(bootstrap: str) -> None:
    node = require_program("node", "install Node.js 20 or newer")
    program = node_clients.folder() / "main.js"

    told = run([node, str(program), bootstrap.partition(",")[0]], timeout_s=100).decode()

    assert sorted(line.split(":")[0] for line in told.splitlines() if "200 topics" in line) == [
        "kafkajs",
        "platformatic",
    ]
