"""Frameworks of Python programs, each in an environment of its own: a worker that is stopped, killed,
and loses its broker goes on where it was.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.lines import KEYS, TopicReader, lag, lines, write
from compat_tests.frameworks.story import (
    TEST_TIMEOUT_S,
    RunWorker,
    environment,
    goes_on_where_it_was,
    upper,
)
from compat_tests.frameworks.worker import Worker
from compat_tests.running.prerequisites import python_environment
from compat_tests.running.waiting import until

PROGRAMS = Path(__file__).parent / "python"
pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)


@dataclass(frozen=True, kw_only=True)
class Framework:
    """How its users install and start it."""

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    prepare: tuple[str, ...] = ()
    keeps_own_offsets: bool = False  # in snapshots from time to time, not in a group

    def installed(self, command: tuple[str, ...]) -> list[str]:
        """A command with the path of its program in the framework's environment."""
        programs = python_environment(self.name.partition("-")[0], *self.packages)
        return [str(programs / command[0]), *command[1:]]


FASTSTREAM = ("faststream[cli,confluent,kafka]==0.7.8",)
FAUST = Framework(
    name="faust",
    packages=("faust-streaming==0.15.3",),
    command=("faust", "-A", "faust_lines", "worker", "-l", "info"),
)
FAUST_TABLE = replace(FAUST, command=("faust", "-A", "faust_table", "worker", "-l", "info"))
FRAMEWORKS = (
    Framework(
        name="faststream-confluent",
        packages=FASTSTREAM,
        command=("faststream", "run", "faststream_confluent:app"),
    ),
    Framework(
        name="faststream-aiokafka",
        packages=FASTSTREAM,
        command=("faststream", "run", "faststream_aiokafka:app"),
    ),
    FAUST,
    Framework(
        name="quix",
        packages=("quixstreams==3.28.1",),
        command=("python", str(PROGRAMS / "quix_state.py")),
    ),
    Framework(
        name="bytewax",
        packages=("bytewax[kafka]==0.21.1",),
        prepare=("python", "-m", "bytewax.recovery", ".", "1"),
        command=("python", "-m", "bytewax.run", "bytewax_flow", "-r", ".", "-s", "1", "-b", "0"),
        keeps_own_offsets=True,
    ),
)
CELERY = Framework(
    name="celery",
    packages=("celery==5.7.0", "kombu[confluentkafka]==5.7.0"),
    command=("celery", "-A", "celery_tasks", "worker", "--pool", "solo"),
)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_a_worker_goes_on_where_it_was(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path, framework: Framework
) -> None:
    if framework.prepare:
        subprocess.run(framework.installed(framework.prepare), cwd=tmp_path, check=True)

    def run() -> Worker:
        told = environment(broker, topic, tmp_path)
        return run_worker(framework.installed(framework.command), **told, PYTHONPATH=str(PROGRAMS))

    goes_on_where_it_was(broker, topic, run, framework.keeps_own_offsets)


def test_faust_has_its_table_back_after_a_restart(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path
) -> None:
    at, told = broker.bootstrap, environment(broker, topic, tmp_path)
    create_topic(at, topic, 3)
    create_topic(at, told["SINK"], 3)
    reader = TopicReader(at, told["SINK"])
    write(at, topic, lines(0, 10 * KEYS))

    worker = run_worker(
        FAUST_TABLE.installed(FAUST_TABLE.command), **told, PYTHONPATH=str(PROGRAMS)
    )
    reader.until(f"key-{key}=10" for key in range(KEYS))
    worker.stop()
    worker.start()
    # What comes before it has its table back, Faust may pass over: it seeks while it reads.
    until(lambda: worker.said().count("Worker ready") == 2, "it has its table back")
    write(at, topic, lines(0, 10 * KEYS))

    seen = reader.until(f"key-{key}=20" for key in range(KEYS))
    assert set(seen.values()) == {1}
    worker.stop()
    reader.close()


def test_celery_does_every_task(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path
) -> None:
    told = environment(broker, topic, tmp_path)
    sender = CELERY.installed(("python", str(PROGRAMS / "celery_tasks.py")))
    done = tmp_path / "done"

    def send(first: int, count: int) -> None:
        subprocess.run([*sender, *lines(first, count)], env=told, check=True)

    def all_done(count: int) -> bool:
        return done.exists() and set(done.read_text().splitlines()) == set(upper(0, count))

    send(0, 20)
    worker = run_worker(CELERY.installed(CELERY.command), **told, PYTHONPATH=str(PROGRAMS))
    until(lambda: all_done(20), "20 tasks are done")
    worker.stop()
    send(20, 20)
    worker.start()
    until(lambda: all_done(40), "40 tasks are done")
    worker.kill()
    send(40, 20)
    worker.start()
    until(lambda: all_done(60), "60 tasks are done")

    until(lambda: lag(broker.bootstrap, topic, f"{topic}-consumer-group") == 0, "all is committed")
    worker.stop()
