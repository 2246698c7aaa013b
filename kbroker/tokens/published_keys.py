"""PublishedKeys: the keys of an issuer, read again and again on a thread of their own.

Law: nobody who logs in waits for a key server: a key that is not known is refused, and is there for
the next login once it has been read. Keys that were read stay in force until others are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kbroker.clock import Clock
from kbroker.tokens.key_set import KeySet, PublicKey
from kbroker.tokens.reading_schedule import ReadingSchedule

_FIRST_S = 5.0  # that the start of a broker waits for a server which hangs
_log = logging.getLogger(__name__)


class PublishedKeys:
    """Any thread may look for keys; the thread that reads them ends with `close`."""

    def __init__(
        self,
        place: str,
        read: Callable[[], bytes],
        schedule: ReadingSchedule,
        clock: Clock,
        keys: KeySet | None = None,
    ) -> None:
        """`place` names them in the log; `read` may block and raises OSError or ValueError;
        `keys` are those known already.
        """
        self._place = place
        self._read = read
        self._schedule = schedule
        self._clock = clock
        self._keys = KeySet() if keys is None else keys
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_failing = False
        self._tried = threading.Event()
        if keys is not None:
            self._tried.set()
        self._thread = threading.Thread(target=self._run, name="kbroker-token-keys", daemon=True)

    def start(self) -> None:
        """Begin to read, at once if nothing is known yet."""
        self._thread.start()

    def read_once(self) -> None:
        """Wait until they have been read for the first time, or have failed to be, for a moment."""
        self._tried.wait(_FIRST_S)

    def close(self) -> None:
        """Have no further reading begin; one that goes on ends by its own time limit."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return a key; if it is not known, the keys are read again soon, but not often."""
        key = self._keys.find(kid, algorithm)
        if key is None:
            with self._changed:
                if self._schedule.asked(self._clock.monotonic_ms()):
                    self._changed.notify()
        return key

    def _run(self) -> None:
        while self._is_due():
            try:
                keys = KeySet.parse(self._read())
            except Exception as error:  # the thread goes on, whatever comes from elsewhere
                self._note_failure(error)
                self._tried.set()
                continue
            with self._changed:
                self._keys = keys
                self._schedule.succeeded(self._clock.monotonic_ms())
            self._tried.set()
            if self._is_failing:
                self._is_failing = False
                _log.warning("the keys of tokens can be read again from %s", self._place)

    def _is_due(self) -> bool:
        """Wait for the next reading. Returns False at the end."""
        with self._changed:
            while not self._is_closed:
                wait_ms = self._schedule.due_ms - self._clock.monotonic_ms()
                if wait_ms <= 0:
                    return True
                self._changed.wait(wait_ms / 1000)
            return False

    def _note_failure(self, error: Exception) -> None:
        with self._changed:
            self._schedule.failed(self._clock.monotonic_ms())
        if not self._is_failing:
            self._is_failing = True
            count = len(self._keys.keys)
            _log.warning(
                "the keys of tokens cannot be read from %s: %s; %s",
                self._place,
                error,
                f"the {count} known ones stay in force"
                if count
                else "no token is taken until then",
            )
