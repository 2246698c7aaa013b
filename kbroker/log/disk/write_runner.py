"""Runs the slow part of periodic work: files written whole, fsyncs, removals of many files. They
may take longer than a client waits.

What has to be written is gathered by the owner of the logs; a WriteRunner carries it out, here or
on a worker thread, and reports to the owner.

Law: `done` is called once for everything that was asked for, whatever came of it. Work that ends in
an error of the program counts as a failed sync: nobody knows what of it is on the disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from kbroker.log.disk.file_system import SYNC, StorageError

T = TypeVar("T")

Done = Callable[[StorageError | None], None]

WriteRunner = Callable[[Callable[[], None], Done], None]
"""Called with the work, and with what gets its error, or None, in the owner's thread."""

_log = logging.getLogger(__name__)


def run_now(work: Callable[[], None], done: Done) -> None:
    """A WriteRunner that does the work before it returns."""
    done(outcome(work))


def outcome(work: Callable[[], None]) -> StorageError | None:
    """Do the work, on whatever thread; what came of it."""
    try:
        work()
    except StorageError as error:
        return error
    except Exception as error:
        return unexpected(error)
    return None


def unexpected(error: BaseException | None) -> StorageError:
    """Return the error to report for work that a bug has ended."""
    _log.error("A write ended unexpectedly", exc_info=error)
    return StorageError("", SYNC, 0, f"it ended unexpectedly: {error!r}")


Prepared = tuple[Callable[[], None], Done]
"""A piece of work, and what is called when it is done."""

_END = object()
Step = Callable[[], Prepared | None]
"""Prepares a piece of work in the owner's thread; None: there is none."""


class InTurn:
    """Much work in small pieces: each is prepared and handed to a WriteRunner when the one before
    it is done, so that what others hand over, and the owner's own work, comes in between.
    """

    def __init__(self, runner: Callable[[], WriteRunner]) -> None:
        """`runner` gives the one of now."""
        self._runner = runner
        self._steps: deque[Step] = deque()
        self._is_under_way = False
        self._is_going_on = False

    def add(self, step: Step) -> None:
        """Take this step after all others."""
        self._steps.append(step)
        self._go_on()

    def add_parts(
        self, items: Sequence[T], most: int, step: Callable[[Sequence[T]], Prepared]
    ) -> None:
        """Take a step for each part of `items`, of `most` at once, after all others."""
        for start in range(0, len(items), most):
            self.add(partial(step, items[start : start + most]))

    def add_steps(self, steps: Iterator[None]) -> None:
        """Take these steps, each after all others that wait by then; the first one may be taken
        now.
        """

        def step() -> Prepared | None:
            if next(steps, _END) is _END:
                return None
            self.add(step)
            return give_way()

        self.add(step)

    def stop(self) -> None:
        """Leave what waits undone."""
        self._steps.clear()

    def _go_on(self) -> None:
        if self._is_going_on:  # a runner that is done at once calls from within the loop below
            return
        self._is_going_on = True
        try:
            while self._steps and not self._is_under_way:
                prepared = _prepared(self._steps.popleft())
                if prepared is not None:
                    work, done = prepared
                    self._is_under_way = True
                    self._runner()(work, partial(self._told, done))
        finally:
            self._is_going_on = False

    def _told(self, done: Done, error: StorageError | None) -> None:
        self._is_under_way = False
        try:
            done(error)
        finally:
            self._go_on()


def give_way() -> Prepared:
    """Nothing for the thread: the event loop has its turn before the next step."""
    return lambda: None, lambda _: None


def _prepared(step: Step) -> Prepared | None:
    try:
        return step()
    except Exception:  # a fault of the program ends its own step, not what others wait for
        _log.exception("A maintenance step failed")
        return None
