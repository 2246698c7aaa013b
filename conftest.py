"""What holds for every test: where Spark tests run, what Python's garbage collector looks at, and
where temporary directories are.

A Spark session takes ten seconds and half a gigabyte, so that there is one per run: all tests of a
folder `spark` share it, in one process. With xdist they are one unit of work, handed out first,
because it is the longest; all others go file by file as `--dist loadfile` says, long ones first and
short ones last, so that no process is without work while another one is amid a long file. One
process begins with the files that compute, the others with those that wait for programs they have
started: as long as there are both, no processor is idle.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from compat_tests.spark.quick_java import quick_java

pytest_plugins = ["compat_tests.spark.session"]
# For properties as a hunt: other examples in each run. Else they are tried with as many as
# Hypothesis takes for enough, the same ones each time.
settings.register_profile("hunt", max_examples=2_000, deadline=None)

SPARK_FOLDER = "spark"
LONG_FILES = (  # a minute or more, while other processes run
    "tests/faults/test_replication_seeds.py",
    "compat_tests/pipeline/test_pipeline_rounds.py",
    "compat_tests/batches/test_batches.py",
    "compat_tests/clients/test_clients.py",
    "compat_tests/clients/test_old_formats.py",
    "compat_tests/clients/test_transactions_with_epochs.py",
    "compat_tests/cluster/test_cluster_transactions.py",
    "compat_tests/cluster/test_replication.py",
    "compat_tests/cluster/test_secure_zookeeper.py",
    "compat_tests/transactions/test_copiers.py",
    "tests/docs/test_pipeline_commands.py",
    "tests/docs/test_rules_page.py",
    "tests/integration/console/test_in_chromium.py",
    "tests/integration/test_command_outputs.py",
)
TIDY_TESTS = "tests/test_tidy"  # which share the trees of all sources
SHORT_FOLDER = "tests/unit/"
COMPUTING_FOLDERS = (
    "tests/faults/", "tests/golden/", "tests/properties/", "tests/scenarios/", SHORT_FOLDER,
)  # fmt: skip
COLLECTIONS = (200_000, 20, 20)  # objects, and collections of the generation before
_END_S = 10
NO_TIME_S = 0.1
SPARK_TIMEOUT_S = 300  # the first test that waits for the session pays for its start
# Half of what tests of files take is waiting for a disk to sync; a power loss is never real here.
IN_MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 * 1024**3  # noqa: S108  pytest makes folders of its own
TEMPORARY = "PYTEST_DEBUG_TEMPROOT"  # pytest's own; whoever sets it has the last word

# A client whose broker has gone asks for it on a thread of its own until it is collected: what that
# thread logs is no word of the test that runs by then.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free >= ROOM_BYTES:
    os.environ.setdefault(TEMPORARY, str(IN_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is collected lives to the end: to look for garbage among it takes a third of the time of
    the collection, and some of that of every test. What tests make is looked at less often, too.
    """
    gc.disable()
    try:
        with _after_the_first(session.config):
            return (yield)
    finally:
        gc.freeze()
        gc.unfreeze = _note_and_thaw
        gc.set_threshold(*COLLECTIONS)
        gc.enable()


_thaw = gc.unfreeze
_thawed: list[bool] = []


def _note_and_thaw() -> None:
    _thawed.append(True)
    _thaw()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Look for garbage as before the test: a broker that was started in this process looks often,
    and what thaws its own frozen state thaws all that was collected, at which each full collection
    then looks for as long as a test takes. What a file leaves behind, such as trees of sources that
    it keeps for others, stays, too.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        _end_clients()
        gc.freeze()
    elif _thawed:
        gc.freeze()
    _thawed.clear()
    gc.set_threshold(*COLLECTIONS)


def _end_clients() -> None:
    """End the threads of kafka-python's producers that nobody has closed, such as those of pages:
    they draw from Python's own random numbers, and what follows from a seed differs then.
    """
    for thread in threading.enumerate():
        if type(thread).__module__ == "kafka.producer.sender":
            thread.force_close()  # type: ignore[attr-defined]
            thread.join(_END_S)


@contextmanager
def _after_the_first(config: pytest.Config) -> Iterator[None]:
    """Of all processes one collects first: the others need not compile what it has compiled. One of
    those that wait makes what Spark starts with, on the processor that is idle.
    """
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if config.args_source is config.ArgsSource.TESTPATHS and not config.option.markexpr:
                with suppress(ImportError):  # of pyspark
                    quick_java()
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of a folder `spark`; elsewhere the fixture would open a second session."""
    for item in items:
        if SPARK_FOLDER in Path(item.nodeid.partition("::")[0]).parts[:-1]:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        elif "spark" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(
                f"{item.nodeid} shares the session: move it to a folder `spark`"
            )


class _Places(list[str]):
    """Names of tests, each of which is found at once: the scheduler looks up one by one."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, name: str, *_bounds: Any) -> int:
        """Return its place."""
        return self._places[name]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a process that runs tests for another one say nothing of setting up and tearing down
    where that went well and took no time: a report costs both of them more than a short test does.
    """
    if not hasattr(session.config, "workerinput"):
        return

    def send(name: str, **fields: Any) -> None:
        if name != "testreport" or _is_news(fields["data"]):
            original(name, **fields)

    plugins = session.config.pluginmanager.get_plugins()
    # Its module is run by name only, so that the class is not the one that could be imported.
    (interactor,) = (each for each in plugins if type(each).__name__ == "WorkerInteractor")
    original = interactor.sendevent
    interactor.sendevent = send


def _is_news(report: dict[str, Any]) -> bool:
    is_plain = report["outcome"] == "passed" and not report["sections"]
    return report["when"] == "call" or not is_plain or report["duration"] > NO_TIME_S


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadfile`: all that shares the Spark session is one unit, a process
    takes files of its own kind before others, and of these long ones first.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LongFirst(LoadFileScheduling):
        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, _Places(collection))
            self.registered_collections[node] = _Places(collection)

        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            if file.startswith(TIDY_TESTS):
                return TIDY_TESTS
            return SPARK_FOLDER if SPARK_FOLDER in Path(file).parts[:-1] else file

        def _assign_work_unit(self, node: Any) -> None:
            computes = self.nodes.index(node) == 1  # the one before it waits for Spark

            def urgency(unit: str) -> tuple[bool, bool, bool, bool]:
                is_own = unit.startswith(COMPUTING_FOLDERS) == computes
                is_short = unit.startswith(SHORT_FOLDER)
                return unit == SPARK_FOLDER, is_own, unit in LONG_FILES, not is_short

            self.workqueue.move_to_end(max(self.workqueue, key=urgency), last=False)
            super()._assign_work_unit(node)

    return LongFirst(config, log)
