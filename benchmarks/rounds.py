"""Rounds that alternate between brokers, so that what else a machine does meets all of them.

Most groups of loads get new brokers in each round. `standing` is for loads that have to be warm: its
brokers stand for all loads, and each load is prepared and warmed at every broker before its rounds.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from benchmarks import references
from benchmarks.loads import Figures
from benchmarks.processes import RunningBroker
from benchmarks.request_loads import FULL, Effort, Measure, RequestLoad
from compat_tests.running.prerequisites import NotAvailableError

Start = Callable[[], AbstractContextManager[Any]]
Row = tuple[str, Callable[[Any], Figures]]
Values = dict[str, list[float]]  # by broker, one of each round
Results = dict[tuple[str, str], Values]  # by load and figure

KFAKE = "kfake"


class StandingLoad(Protocol):
    """A load that is prepared once for several rounds."""

    name: str

    @property
    def disk_bytes(self) -> int:
        """How much of the disk it fills at each broker."""

    def prepared(self, broker: RunningBroker, effort: Effort) -> AbstractContextManager[Measure]:
        """Prepare and warm, and give what measures one round."""


def fresh(
    group: str,
    rows: Sequence[Row],
    starts: Mapping[str, Start],
    rounds: int,
    warm: Callable[[Any], None],
) -> Results:
    """Run a group's loads one after the other on brokers that were just started, and warmed."""
    results: Results = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        for broker_name in _in_turn(list(starts), number):
            _say(f"{group}: round {number + 1} of {rounds}, {broker_name}")
            with starts[broker_name]() as broker:
                warm(broker)
                for load_name, load in rows:
                    for figure, value in load(broker).items():
                        results[load_name, figure][broker_name].append(value)
    return results


def standing(
    loads: Sequence[StandingLoad], starts: Mapping[str, Start], rounds: int, effort: Effort
) -> Iterator[Results]:
    """Yield what each load gave, of brokers that stand, and of references that stand for one load."""
    with ExitStack() as stands:
        brokers = {
            name: stands.enter_context(start()) for name, start in starts.items() if name != KFAKE
        }
        for load in loads:
            # It is there twice, and what was deleted before may still be there.
            needed = 3 * load.disk_bytes if effort is FULL else 0
            if shutil.disk_usage(tempfile.gettempdir()).free < needed:
                _say(f"{load.name}: left out, it needs {needed / 1e9:.0f} GB of disk")
                continue
            try:
                yield _measured(load, brokers, KFAKE in starts, rounds, effort)
            except NotAvailableError as error:
                _say(f"{load.name}: left out, {error}")


def _measured(
    load: StandingLoad,
    brokers: Mapping[str, RunningBroker],
    has_kfake: bool,
    rounds: int,
    effort: Effort,
) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        measures: dict[str, Measure] = {}
        for name, prepare in _preparations(load, brokers, has_kfake, effort):
            _say(f"{load.name}: warming {name}")
            measures[name] = prepare(stack)
        for number in range(rounds):
            for name in _in_turn(list(measures), number):
                for figure, value in measures[name]().items():
                    results[load.name, figure][name].append(value)
    return results


def _preparations(
    load: StandingLoad, brokers: Mapping[str, RunningBroker], has_kfake: bool, effort: Effort
) -> Iterator[tuple[str, Callable[[ExitStack], Measure]]]:
    for name, broker in brokers.items():
        yield name, lambda stack, broker=broker: stack.enter_context(load.prepared(broker, effort))
    if not isinstance(load, RequestLoad) or len(brokers) == 1:
        return
    if has_kfake and load.in_memory:

        def of_kfake(stack: ExitStack) -> Measure:
            broker = stack.enter_context(references.kfake())
            return stack.enter_context(load.prepared(broker, effort))

        yield KFAKE, of_kfake
    if load.has_bare_loop:
        for name in references.bare_loops():

            def of_loop(stack: ExitStack, name: str = name) -> Measure:
                loop = stack.enter_context(references.bare_loop(name, load.sends))
                return stack.enter_context(load.prepared_bare(loop, effort))

            yield name, of_loop


def _in_turn(names: list[str], number: int) -> list[str]:
    """Turn about: what the first one does, such as warming a disk, is of use to the next."""
    return names[:: -1 if number % 2 else 1]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
