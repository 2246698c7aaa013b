"""The kinds of groups, and the states of consumer groups, as clients name them. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
GROUP_TYPES = frozenset({CLASSIC, CONSUMER})


class ConsumerGroupState(Enum):
    """A state, with the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target of its epoch is not there yet
    RECONCILING = "Reconciling"  # not all members have reached the target
    STABLE = "Stable"
