"""OwnTargets: targets of consumer groups, computed by assignors of the operator's.

Law: each of these assignors has a thread of its own, which computes one target after the other; one
that has not answered in time is not waited for any longer, and as long as it is still at that, all
who need it are refused at once. Whatever goes wrong is an AssignorError, and one line of the log.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, AssignorError
from kbroker.coordinator.consumer_group.step import TargetJob
from kbroker.own_code import Call, OwnCode, on_loop
from kbroker.rare_lines import RareLines, note_of

_log = logging.getLogger(__name__)

ANSWER_S: Final = 5.0


class _Thread:
    """The thread of one assignor."""

    def __init__(self, name: str) -> None:
        self.code = OwnCode(f"assignor {name}")
        self.turn = asyncio.Lock()
        self.late: Call | None = None


class OwnTargets:
    """One for all groups of a broker."""

    def __init__(self, monotonic_ms: Callable[[], float], answer_s: float = ANSWER_S) -> None:
        self._monotonic_ms = monotonic_ms
        self._answer_s = answer_s
        self._threads: dict[str, _Thread] = {}  # by name of the assignor
        self._lines = RareLines()

    async def compute(self, group_id: str, job: TargetJob) -> Mapping[str, Assignment]:
        """Return the target of each member of a group. Raises AssignorError."""
        name = job.assignor.name
        thread = self._threads.get(name)
        if thread is None:
            thread = self._threads[name] = _Thread(name)
        try:
            async with thread.turn:
                return await self._computed(thread, job)
        except AssignorError as error:
            self._tell(group_id, job, error)
            raise

    def stop(self) -> None:
        """Let the threads end; nobody waits for them."""
        for thread in self._threads.values():
            thread.code.stop()

    async def _computed(self, thread: _Thread, job: TargetJob) -> Mapping[str, Assignment]:
        name = job.assignor.name
        if thread.late is not None and not thread.late.done.is_set():
            raise AssignorError(f"{name} is still at a former target")
        loop = asyncio.get_running_loop()
        is_done = asyncio.Event()
        call = thread.code.call(job.assign, on_done=partial(on_loop, loop, is_done.set))
        if call is None:
            raise AssignorError(f"there is no thread for {name}")
        thread.late = call  # for whoever asks while it goes on, if nobody waits for it any more
        try:
            await asyncio.wait_for(is_done.wait(), self._answer_s)
        except TimeoutError:
            raise AssignorError(f"{name} has not answered within {self._answer_s:g} s") from None
        if call.error is not None:
            raise _as_its_own(call.error)
        found: Any = call.answer
        return found  # type: ignore[no-any-return]  # what `assign` returns

    def _tell(self, group_id: str, job: TargetJob, error: AssignorError) -> None:
        asked = job.assignor.setting or job.assignor.name
        left_out = self._lines.left_out(asked, f"{group_id}: {error}", self._monotonic_ms())
        if left_out is not None:
            _log.error(
                "Group %s gets no target for epoch %s, as %s has failed: %s%s",
                group_id,
                job.epoch,
                asked,
                error,
                note_of(left_out),
            )


def _as_its_own(error: BaseException) -> BaseException:
    return error if isinstance(error, AssignorError) else AssignorError(repr(error))
