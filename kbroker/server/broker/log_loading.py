"""Opens the logs of a start on a thread, while somebody may watch the progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar

from kbroker.log.recovery.load_progress import LoadCancelledError, LoadProgress

_WATCH_S: Final = 0.2

_T = TypeVar("_T")

# Called with the progress of opening logs; its context lasts as long as that does, and yields a
# function that is called now and then.
WatchLoading = Callable[[LoadProgress], AbstractContextManager[Callable[[], object]]]


def nobody_watches(_progress: LoadProgress) -> AbstractContextManager[Callable[[], object]]:
    return nullcontext(lambda: None)


async def load_on_thread(load: Callable[[LoadProgress], _T], watch: WatchLoading) -> _T:
    """Run `load` on a thread while `watch` follows it; stop it if this is cancelled."""
    progress = LoadProgress()
    with watch(progress) as look:
        # On a thread: recovery may read gigabytes, and a signal must still be heard.
        loading = asyncio.ensure_future(asyncio.to_thread(load, progress))
        try:
            while not loading.done():
                await asyncio.wait({loading}, timeout=_WATCH_S)
                look()
        except asyncio.CancelledError:
            progress.cancel()
            await asyncio.wait({loading})
            error = loading.exception()
            if error is not None and not isinstance(error, LoadCancelledError):
                raise error from None
            raise
    return loading.result()
