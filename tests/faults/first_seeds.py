"""Where the hunts find the mistakes planted, once what brokers read, write or send has changed and with
it every history: one line for each mistake that its history of before no longer finds.

    python -m tests.faults.first_seeds
    python -m tests.faults.first_seeds min_isr_ignored unclean_leaders --steps 12

The first history counts that goes wrong with the mistake, by what it is found by, and not without it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from tests.faults import (
    cluster_bugs,
    cluster_simulation,
    replication_bugs,
    replication_simulation,
    transaction_bugs,
    transaction_simulation,
)
from tests.faults.cluster_bugs import Mistake
from tests.faults.cluster_simulation import Outcome

Hunt = Callable[..., Outcome]


class Planted(NamedTuple):
    """Mistakes, each with the kinds of violation by which it is found; any will do if it has none."""

    hunt: Hunt
    mistakes: Mapping[Mistake, frozenset[str]]
    places: Mapping[Mistake, tuple[int, int]]  # the first history and its steps
    usual_steps: int


def _any(mistakes: Iterable[Mistake]) -> dict[Mistake, frozenset[str]]:
    return dict.fromkeys(mistakes, frozenset())


ALL = (
    Planted(cluster_simulation.hunt, cluster_bugs.PLANTED, cluster_bugs.FOUND_SOON, 60),
    Planted(
        replication_simulation.hunt,
        _any(replication_bugs.PLANTED),
        replication_bugs.FOUND_SOON,
        60,
    ),
    Planted(
        transaction_simulation.hunt,
        _any(transaction_bugs.PLANTED),
        transaction_bugs.FOUND_SOON,
        30,
    ),
)


def first_seed(planted: Planted, mistake: Mistake, seed: int, steps: int) -> int:
    """Return the first history from this one on that shows the mistake."""
    wanted = planted.mistakes[mistake]
    for each in count(seed):
        with mistake():
            found = kinds(planted.hunt, each, steps)
        if found & (wanted or found) and not kinds(planted.hunt, each, steps):
            return each
    raise AssertionError("there is no last one")


def kinds(hunt: Hunt, seed: int, steps: int) -> set[str]:
    """Return what goes wrong in one history."""
    outcome = hunt(range(seed, seed + 1), steps, stops=True)
    return {violation.kind for _, violation in outcome.violations}


def main() -> None:
    parser = argparse.ArgumentParser(description="says where planted mistakes are found now")
    parser.add_argument("mistakes", nargs="*", help="names; all without")
    parser.add_argument("--steps", type=int, help="of other histories than before, from the first")
    given = parser.parse_args()
    for planted in ALL:
        for mistake in planted.mistakes:
            if given.mistakes and mistake.__name__ not in given.mistakes:
                continue
            before = planted.places.get(mistake, (1, planted.usual_steps))
            seed, steps = (1, given.steps) if given.steps else before
            started = time.process_time()
            found = first_seed(planted, mistake, seed, steps)
            if (found, steps) != before:
                took_s = time.process_time() - started
                print(f"{mistake.__name__}: ({found}, {steps}),  # {took_s:.1f} s", flush=True)


if __name__ == "__main__":
    main()
