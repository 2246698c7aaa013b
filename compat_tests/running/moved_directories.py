"""A data directory that moves from Apache Kafka to kbroker: who has it first, and who takes it over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE
from compat_tests.running.shared_zookeeper import fresh_chroot


@contextmanager
def started_apache(line: str, data: Path) -> Iterator[ApacheBroker]:
    """Apache Kafka of that line over an empty directory; it has written nothing yet. In the end it is
    killed.
    """
    if line == ZOOKEEPER_LINE:
        broker = ApacheBroker(data, fresh_chroot())
    else:
        broker = ApacheBroker(data, settings={"metadata.log.dir": str(data)})
    broker.start()
    yield broker
    assert broker.process is not None
    broker.process.kill()
    broker.process.wait()


@contextmanager
def adopting_broker(data: Path) -> Iterator[BrokerProcess]:
    """kbroker over Apache Kafka's directory, not started yet; in the end it is killed."""
    broker = BrokerProcess(data, ("--adopt",))
    yield broker
    if broker.process is not None and broker.process.poll() is None:
        broker.stop(signal.SIGKILL)
