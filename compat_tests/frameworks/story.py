"""What every worker is put through that writes the lines of one topic to another in capitals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.lines import TopicReader, lag, lines, write
from compat_tests.frameworks.worker import Worker
from compat_tests.running.waiting import until

TEST_TIMEOUT_S = 400  # a framework's first run also installs it
RunWorker = Callable[..., Worker]


def upper(first: int, count: int) -> list[str]:
    return [line.upper() for line in lines(first, count)]


def environment(broker: BrokerProcess, topic: str, folder: Path) -> dict[str, str]:
    """Return a worker's variables: where to read and write, its group and a folder of its own."""
    return {
        "BOOTSTRAP": broker.bootstrap, "SOURCE": topic, "SINK": f"{topic}-upper", "GROUP": topic,
        "FOLDER": str(folder),
    }  # fmt: skip


def goes_on_where_it_was(
    broker: BrokerProcess, topic: str, run: Callable[[], Worker], keeps_own_offsets: bool = False
) -> None:
    """A worker that is stopped, killed, and loses its broker writes every line, and those twice at
    most that it had not committed when it was killed. `keeps_own_offsets`: from time to time, not in
    a group and not at its end.
    """
    at, sink = broker.bootstrap, f"{topic}-upper"
    create_topic(at, topic, 3)
    create_topic(at, sink, 3)
    reader = TopicReader(at, sink)
    write(at, topic, lines(0, 100))

    worker = run()
    reader.until(upper(0, 100))
    worker.stop()
    write(at, topic, lines(100, 100))
    worker.start()
    reader.until(upper(0, 200))
    write(at, topic, lines(200, 2_000))
    reader.until_any(upper(200, 2_000))
    worker.kill()
    worker.start()
    reader.until(upper(0, 2_200))
    broker.stop()
    broker.start()
    write(at, topic, lines(2_200, 100))
    seen = reader.until(upper(0, 2_300))

    if not keeps_own_offsets:
        until(lambda: lag(at, topic, topic) == 0, "all is committed")
        assert {seen[value] for value in upper(0, 100)} == {1}
    worker.stop()
    reader.close()
