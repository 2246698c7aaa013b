"""Node programs over librdkafka: node-rdkafka and Confluent's library, compiled where they are
installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.story import RunWorker, environment, goes_on_where_it_was
from compat_tests.running.prerequisites import BUILD_TIMEOUT_S, npm_packages, require_program

SOURCE = Path(__file__).parent / "node"


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize("library", ["node-rdkafka", "confluent-kafka-javascript"])
def test_a_worker_goes_on_where_it_was(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path, library: str
) -> None:
    node = require_program("node", "install Node.js 20 or newer")
    command = [node, str(npm_packages(SOURCE, compiles=True) / "worker.js"), library]

    goes_on_where_it_was(
        broker, topic, lambda: run_worker(command, **environment(broker, topic, tmp_path))
    )
