"""Handshakes on threads: turns of addresses, and those that are given up."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
from typing import Any, cast

import pytest

from kbroker.network.handshakes import HandshakeError, Handshakes


class Stuck:
    """A socket whose handshake is at work until it is let go, and fails then."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def do_handshake(self) -> None:
        self.begun.set()
        self.go_on.wait()
        raise ssl.SSLZeroReturnError("closed")


async def test_a_step_that_fails_after_it_was_given_up_is_no_news() -> None:
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    handshakes, stuck = Handshakes(threads=1), Stuck()
    opening = asyncio.create_task(handshakes.complete(cast(ssl.SSLSocket, stuck), "127.0.0.1"))
    await asyncio.to_thread(stuck.begun.wait)

    opening.cancel()
    await asyncio.sleep(0)
    assert not opening.done()  # its socket is not closed while a thread is at it
    stuck.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    del opening
    gc.collect()
    await asyncio.sleep(0)

    assert said == []
    handshakes.close()


class Refusing:
    """A socket whose client finds that the broker's certificate has expired."""

    def do_handshake(self) -> None:
        error = ssl.SSLError(1, "sslv3 alert certificate expired")
        error.reason = "SSLV3_ALERT_CERTIFICATE_EXPIRED"
        raise error


async def test_a_certificate_out_of_date_is_to_be_renewed() -> None:
    handshakes = Handshakes(threads=1)

    with pytest.raises(HandshakeError, match="certificate is out of date for it: renew it"):
        await handshakes.complete(cast(ssl.SSLSocket, Refusing()), "127.0.0.1")

    handshakes.close()
