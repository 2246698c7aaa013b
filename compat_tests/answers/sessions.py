"""Fetch sessions: kept, broken, changed, closed, of topics that are missing or of none."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import (
    COMPACTED,
    EMPTY,
    FULL,
    INT32,
    MISSING,
    Values,
    fetch,
    forgotten,
    one,
)
from compat_tests.wire.wire_client import FETCH

VERSIONS = (7, 11, 12, 13, 17)

Step = tuple[str, Values]


def one_after_the_other(caller: Caller, versions: tuple[int, ...] = VERSIONS) -> None:
    """Requests of one session; the answer to each depends on all before it."""
    for version in versions:
        idle, missing = one(caller, version, EMPTY), one(caller, version, MISSING)
        beyond, busy = one(caller, version, FULL, 10_000), one(caller, version, FULL, 17)
        kinds: dict[str, tuple[Values, ...]] = {
            "idle": (idle,), "missing": (missing,), "missing and idle": (missing, idle),
            "out of range": (beyond, idle), "nothing": (), "busy": (busy, idle),
        }  # fmt: skip
        for kind, topics in kinds.items():
            first = fetch(caller, version, *topics, session_epoch=0, max_wait=0)
            made = caller.ask(f"session of {kind}", FETCH, version, **first)
            for what, values in _steps(caller, version):
                values.setdefault("session_id", made.session_id if made is not None else 0)
                request = fetch(caller, version, *values.pop("topics", ()), **values)
                again = caller.ask(f"session of {kind}, {what}", FETCH, version, **request)
                if values["session_epoch"] == 0:
                    made = again


def of_two_kinds(caller: Caller) -> None:
    """A session by name goes on by id, and the other way."""
    for first, second in ((12, 13), (13, 12)):
        label = f"kinds {first} {second}"
        request = fetch(caller, first, one(caller, first, EMPTY), session_epoch=0, max_wait=0)
        made = caller.ask(label, FETCH, first, **request)
        for what, version in (("the other kind", second), ("goes on", first)):
            request = fetch(
                caller, version, session_id=made.session_id, session_epoch=1, max_wait=0
            )
            caller.ask(f"{label}: {what}", FETCH, version, **request)


def that_nobody_made(caller: Caller) -> None:
    for session_id in (-1, 1, INT32, -(2**31)):
        for epoch in (-(2**31), -2, -1, 0, 1, INT32):
            request = fetch(
                caller, 12, one(caller, 12, EMPTY), session_id=session_id, session_epoch=epoch,
                max_wait=0,
            )  # fmt: skip
            caller.ask(f"session {session_id} epoch {epoch}", FETCH, 12, **request)


ALL = (one_after_the_other, of_two_kinds, that_nobody_made)


def _steps(caller: Caller, version: int) -> Iterator[Step]:
    """Yield the requests after the first one of a session."""
    idle, missing = one(caller, version, EMPTY), one(caller, version, MISSING)
    yield "request 1", {"session_epoch": 1}
    yield "request 2", {"session_epoch": 2}
    yield "a gap", {"session_epoch": 9, "max_wait": 0}
    yield "an epoch from before", {"session_epoch": 1, "max_wait": 0}
    strange = (forgotten(caller, version, COMPACTED, 5),)
    yield (
        "forgets what was not in it",
        {"session_epoch": 3, "max_wait": 0, "forgotten_topics_data": strange},
    )
    gone = (forgotten(caller, version, EMPTY, 0),)
    yield (
        "forgets and adds",
        {"session_epoch": 4, "max_wait": 0, "topics": (missing,), "forgotten_topics_data": gone},
    )
    same = (forgotten(caller, version, MISSING, 0),)
    yield (
        "adds and forgets the same",
        {"session_epoch": 5, "max_wait": 0, "topics": (missing,), "forgotten_topics_data": same},
    )
    yield "full with its id", {"session_epoch": 0, "max_wait": 0, "topics": (idle,)}
    yield "closed", {"session_epoch": -1, "max_wait": 0, "topics": (idle,)}
    yield "used after its end", {"session_epoch": 1, "max_wait": 0}
