"""Shortcuts: parts that answer requests of one shape in place of an API's handler (see `lanes`).

`served_api` says where they are taken, `permitted_shortcut` what is asked before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from kbroker.protocol.request import Coming, ConnectionInfo, Response

HandlerToCall = Callable[[Any, Any], Any]
"""(ctx, request): the answer of a request whose shortcut has done the work, but has no answer."""


Answered = bytes | Response | HandlerToCall
"""An answer, as a frame with its size, empty if there is none to send, or as a Response; or the
handler that makes it."""


class Shortcut(Protocol):
    """Answers requests of one shape, of which only the values of some fields differ.

    It stands in place of the handler and of encoding. So it is taken only if no stage stands around
    the handler but the authorizer's, whose questions are asked before it (`permitted_shortcut`).
    What it answers is counted against quotas by its connection (see `lanes`).
    """

    is_for_all: ClassVar[bool]
    """Whether other connections may use it, too: it keeps nothing from one request to the next, and
    what it repeats is not one client's own, such as a member of a group, or a session.
    """

    def answer(self, values: list[Any], /) -> Answered | Coming[Answered] | None:
        """The answer to a request with this correlation id and these values, now or later; None if
        nothing was done, and it is the API's own handler that is to be called. Of a request that
        waits no records are looked at any more: they go out of the values.
        """
        ...


MakeShortcut = Callable[[Any, Any, Any, ConnectionInfo], Shortcut | None]
"""(services, served, request, connection): the shortcut of requests with this shape over this
connection, None if they have none; `served` is what is known about its API and version.
"""
