"""Known mistakes of groups that change their protocol, each a context manager that makes a
coordinator commit it. The simulation must find every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from kbroker.coordinator.consumer_group import classic_members, record_reading
from kbroker.coordinator.group import protocol_change
from kbroker.coordinator.group.store import GroupStore

Mistake = Callable[[], AbstractContextManager[Any]]


def group_not_brought_back() -> AbstractContextManager[Any]:
    """A change that the log refuses counts."""
    return patch.object(GroupStore, "_bring_back", lambda *_: None)


def assignments_forgotten() -> AbstractContextManager[Any]:
    """Classic members have nothing once their group has changed."""
    return patch.object(protocol_change, "_assigned", lambda *_: {})


def classic_members_forgotten_at_load() -> AbstractContextManager[Any]:
    """A loaded member speaks the new protocol, whatever its record says."""
    return patch.object(record_reading, "_classic", lambda _member: None)


def nobody_asked_to_join_again() -> AbstractContextManager[Any]:
    """Classic members are not asked to take the next step."""
    return patch.object(classic_members, "_has_step_to_take", lambda *_: False)


PLANTED: tuple[Mistake, ...] = (
    group_not_brought_back,
    assignments_forgotten,
    classic_members_forgotten_at_load,
    nobody_asked_to_join_again,
)
