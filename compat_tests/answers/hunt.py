"""Holds the answers of kbroker against those of Apache Kafka 3.9.2 and 4.3.1, field by field:
`python -m compat_tests.answers.hunt`. It prints what neither of the two answers and no allowance
explains.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from compat_tests.answers import changes, fetches, lookups, old_versions, sessions, writes
from compat_tests.answers.allowed import unexplained
from compat_tests.answers.asking import Answer, Caller, Target
from compat_tests.answers.preparing import TOPICS, go_on, prepare
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot

KBROKER, OLD, NEW = "kbroker", "3.9.2", "4.3.1"
_SETTINGS = {"auto.create.topics.enable": "false"}
_PATIENT = {"zookeeper.session.timeout.ms": "30000"}  # starts take long beside other work

ALL = fetches.ALL + sessions.ALL + lookups.ALL + writes.ALL + changes.ALL + old_versions.ALL

Ask = Callable[[Caller], None]
Answers = dict[str, dict[str, Answer]]


class Process(Protocol):
    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> object: ...


@contextmanager
def running(
    root: Path,
    names: tuple[str, ...] = (KBROKER, OLD, NEW),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[dict[str, Process]]:
    """The brokers, started side by side over empty directories, with these settings."""
    with ExitStack() as stack:
        common = _SETTINGS | dict(settings)
        options = [part for item in common.items() for part in ("--override", "=".join(item))]
        brokers: dict[str, Process] = {}
        if KBROKER in names:
            brokers[KBROKER] = BrokerProcess(root / "own" / "data", tuple(options))
        if OLD in names:
            brokers[OLD] = ApacheBroker(
                root / "old" / "data", fresh_chroot(), settings=common | _PATIENT
            )
        if NEW in names:
            brokers[NEW] = ApacheBroker(root / "new" / "data", settings=common)
        for_each(brokers, lambda name: brokers[name].start())
        for broker in brokers.values():
            stack.callback(broker.stop)
        yield brokers


def for_each(names: object, action: Callable[[str], object]) -> None:
    """Run it for every broker at once; the first failure is raised."""
    failures: list[BaseException] = []

    def run(name: str) -> None:
        try:
            action(name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in list(names)]  # type: ignore[call-overload]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def prepared(brokers: dict[str, Process]) -> dict[str, Target]:
    """Make the topics, restart the brokers, append a little more."""
    targets = {}

    def make(name: str) -> None:
        broker = brokers[name]
        target = Target(name, broker.bootstrap)
        prepare(target)
        broker.stop()
        broker.start()
        go_on(target)
        targets[name] = target
        targets[name].learn(list(TOPICS))

    for_each(brokers, make)
    return targets


def ask_all(targets: dict[str, Target], asks: tuple[Ask, ...] = ALL) -> Answers:
    """Every broker's answers by what was asked."""
    answers: Answers = {}

    def ask(name: str) -> None:
        caller = Caller(targets[name])
        for one in asks:
            one(caller)
        caller.close()
        answers[name] = caller.answers

    for_each(targets, ask)
    return answers


def main() -> int:
    """Exit code 1 where something is not explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="ask only what has this in its name")
    wanted = parser.parse_args().only
    asks = tuple(ask for ask in ALL if wanted in f"{ask.__module__}.{ask.__name__}")
    with tempfile.TemporaryDirectory(prefix="answers-") as root, running(Path(root)) as brokers:
        answers = ask_all(prepared(brokers), asks)
    found = unexplained(answers[KBROKER], answers[OLD], answers[NEW])
    for line in found:
        print(line)
    print(f"{len(answers[KBROKER])} answers, {len(found)} differences that nothing explains")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
