"""One broker for all frameworks, which must find nothing to warn of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.worker import Worker


@pytest.fixture(scope="session")
def shared_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if target != "kbroker":
        pytest.skip("reads the log of a kbroker, and stops it")
    broker = BrokerProcess(tmp_path_factory.mktemp("frameworks") / "data")
    broker.start()
    yield broker
    assert broker.stop() == 0, broker.log_text()[-3000:]


@pytest.fixture
def broker(shared_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker that a test may restart; at the end it must have warned of nothing."""
    before = len(shared_broker.log_text())
    yield shared_broker
    assert shared_broker.log_text()[before:] == ""


@pytest.fixture
def run_worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """A factory of workers, which are gone when the test ends; what they said is shown."""
    workers: list[Worker] = []

    def make(command: list[str], **environment: str) -> Worker:
        log = tmp_path / f"worker-{len(workers)}.log"
        workers.append(Worker(command=command, environment=environment, log=log))
        workers[-1].start()
        return workers[-1]

    yield make
    for worker in workers:
        worker.kill()
        print(f"--- {worker.command}\n{worker.said()[-4_000:]}")
