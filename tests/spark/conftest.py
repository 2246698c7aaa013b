"""What tests of the pipeline on Spark share: the session (fixture `spark`, see the root conftest)
and one broker, started by those that read topics.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import BrokerProcess


@pytest.fixture(scope="session")
def broker_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of that broker."""
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="session")
def bootstrap(kafka_connector: str, broker_data: Path) -> Iterator[str]:
    """Address of a broker for all tests; skips them where Spark's Kafka connector is missing."""
    # Some records have fixed times, which are those of files in an archive.
    broker = BrokerProcess(broker_data, ("--override", "log.retention.ms=-1"))
    broker.start()
    yield broker.bootstrap
    assert broker.stop() == 0, broker.log_text()[-3000:]


@pytest.fixture
def topic() -> str:
    """A topic name that nobody else uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
