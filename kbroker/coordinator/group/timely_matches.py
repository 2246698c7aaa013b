"""Patterns matched with the names of topics, beside the loop and in limited time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic, sleep
from typing import Final

from kbroker.coordinator.consumer_group.patterns import PatternsTooSlowError, matching_names

LIMIT_S: Final = 10.0
_PAUSES_AFTER_S = 0.001


def timely_matches(
    patterns: Collection[str], names: Sequence[str], most_bytes: int, limit_s: float = LIMIT_S
) -> Mapping[str, frozenset[str]]:
    """The names that each pattern matches. Raises PatternsTooSlowError after `limit_s`,
    TooManyMatchesError for more than `most_bytes` of them, and KafkaError without the library.
    """
    try:
        return matching_names(patterns, names, _pausing(monotonic() + limit_s), most_bytes)
    except PatternsTooSlowError:
        raise PatternsTooSlowError(
            f"{len(patterns):,} patterns were not matched with {len(names):,} topics within"
            f" {limit_s:g} s"
        ) from None


def _pausing(end_s: float) -> Callable[[], bool]:
    """Return what says whether it is late. RE2 keeps the interpreter's lock: whoever waits for that
    gets it between two names, at times.
    """
    paused_s = monotonic()

    def is_late() -> bool:
        nonlocal paused_s
        now_s = monotonic()
        if now_s - paused_s >= _PAUSES_AFTER_S:
            sleep(0)
            paused_s = monotonic()
        return now_s >= end_s

    return is_late
