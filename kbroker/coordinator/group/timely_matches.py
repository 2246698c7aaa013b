"""Patterns matched with the names of topics, beside the loop and in limited time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import monotonic, sleep
from typing import Final

from kbroker.coordinator.consumer_group.patterns import PatternsTooSlowError, matching_names

LIMIT_S: Final = 10.0


def timely_matches(patterns: Collection[str], names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """The names that each pattern matches. Raises PatternsTooSlowError after `LIMIT_S`, and
    KafkaError without the library.
    """
    end_s = monotonic() + LIMIT_S

    def is_late() -> bool:
        sleep(0)  # RE2 keeps the interpreter's lock: whoever waits for it gets it between two names
        return monotonic() >= end_s

    try:
        return matching_names(patterns, names, is_late)
    except PatternsTooSlowError:
        raise PatternsTooSlowError(
            f"{len(patterns):,} patterns were not matched with {len(names):,} topics within"
            f" {LIMIT_S:g} s"
        ) from None
