"""Rights over HTTP: whether a user may see what only this broker knows of itself.

Law: what a user may not see is neither collected nor sent. Rights are asked for on the broker's
loop, with each request, and with each look of a request that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbroker.http.broker_loop import BrokerLoop

ANSWER_S = 1.0  # how long the broker's loop may take to answer

Refusal = Callable[[], "str | None"]
"""Says why somebody may not look, in a sentence; None if they may. Called on the broker's loop."""


class NotAllowedError(Exception):
    """A look that a user may not have, with a sentence for that user."""


class Rights:
    """The rights of one user at one address."""

    def __init__(self, loop: BrokerLoop, refusal: Refusal) -> None:
        self._loop = loop
        self._refusal = refusal

    def check_here(self) -> None:
        """Raise NotAllowedError if the user may not look now. Called on the broker's loop."""
        sentence = self._refusal()
        if sentence is not None:
            raise NotAllowedError(sentence)

    async def check(self) -> None:
        """Raise NotAllowedError likewise, on the HTTP thread; TimeoutError if the broker's loop
        does not answer.
        """

        def steps() -> Iterator[None]:
            self.check_here()
            yield None

        await self._loop.collect(steps, ANSWER_S)
