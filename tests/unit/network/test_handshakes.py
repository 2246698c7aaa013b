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

    for _ in range(2):  # the deadline of strangers, and the end of the server
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


async def test_a_thread_that_is_not_to_be_had_costs_one_handshake_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    handshakes = Handshakes(threads=1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(OSError, match="no thread for a handshake"):
                await handshakes.complete(cast(ssl.SSLSocket, Refusing("x")), "127.0.0.1")

    with pytest.raises(HandshakeError):
        await handshakes.complete(cast(ssl.SSLSocket, Refusing("x")), "127.0.0.1")

    handshakes.close()


class Refusing:
    """A socket whose client does not trust the broker's certificate."""

    def __init__(self, alert: str) -> None:
        self._alert = alert

    def do_handshake(self) -> None:
        error = ssl.SSLError(1, self._alert)
        error.reason = self._alert
        raise error


@pytest.mark.parametrize(
    ("alert", "advice"),
    [
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "is out of date for it .*: renew it"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", "is revoked for it .*: make a new one"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not know who signed .*: give the client its authority"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "does not trust this broker's .* connect by a name"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", r"its handshake failed \(SSLV3_ALERT_HANDSHAKE_FAILURE"),
    ],
)
async def test_what_a_client_says_of_the_certificate_comes_with_what_mends_it(
    alert: str, advice: str
) -> None:
    handshakes = Handshakes(threads=1)

    with pytest.raises(HandshakeError, match=advice):
        await handshakes.complete(cast(ssl.SSLSocket, Refusing(alert)), "127.0.0.1")

    handshakes.close()


class Noted:
    """A socket that notes who is at its handshake, which waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def do_handshake(self) -> None:
        self.begun.set()
        self.go_on.wait()


async def test_a_step_that_got_no_thread_is_not_taken_later_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    handshakes, busy, refused, later = Handshakes(threads=2), Noted(), Noted(), Noted()
    others = [asyncio.create_task(_complete(handshakes, busy))]
    await asyncio.to_thread(busy.begun.wait)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(OSError, match="no thread for a handshake"):
            await _complete(handshakes, refused)
    busy.go_on.set()
    later.go_on.set()
    others.append(asyncio.create_task(_complete(handshakes, later)))
    await asyncio.gather(*others)

    assert not refused.begun.is_set(), "its socket is closed by now"
    refused.go_on.set()
    handshakes.close()


async def _complete(handshakes: Handshakes, sock: Noted) -> None:
    await handshakes.complete(cast(ssl.SSLSocket, sock), "127.0.0.1")
