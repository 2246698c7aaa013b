"""Handshakes: agreeing on keys with those who connect, on a few threads.

OpenSSL lets go of Python's lock while it computes, so a signature costs the loop nothing but the
way to a thread. Waiting for the other side is the loop's.

Law: networks take turns, one step each, so that a thousand connections of one delay another by one
step. A socket is not closed while a thread is at it.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from kbroker.errors import ProtocolError
from kbroker.fair_queue import FairQueue
from kbroker.protocol.frame import HTTP_METHODS
from kbroker.tls.socket_waits import readable, writable
from kbroker.tls.tls_errors import Words, distrust_sentence, distrusted

THREADS = 2
_PEEKED_BYTES = 4
_TLS_HANDSHAKE = 0x16  # the type of a record
_OTHER_KEYS = "ssl.enabled.protocols and ssl.cipher.suites of both sides have none in common"
_HINTS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "it showed no certificate, which ssl.client.auth=required asks for: set "
        "ssl.keystore.location in the client"
    ),
    "NO_SHARED_CIPHER": f"there is no cipher suite for it: {_OTHER_KEYS}",
    "UNSUPPORTED_PROTOCOL": f"there is no version of TLS for it: {_OTHER_KEYS}",
    "VERSION_TOO_LOW": f"there is no version of TLS for it: {_OTHER_KEYS}",
}
_WORDS = Words(
    other="it",
    theirs="its certificate",
    ours="this broker's certificate",
    trust="add its authority to ssl.truststore.location",
    be_trusted=(
        "give the client its authority (ssl.truststore.location), and connect by a name that the "
        "certificate holds"
    ),
)


Ready = Callable[[ssl.SSLSocket], Awaitable[None]]
"""Waits until a handshake can go on."""


class HandshakeError(ProtocolError):
    """A handshake that failed, with what to do."""


class Handshakes:
    """The threads of all handshakes of a server, and the connections that wait for them."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, "handshake")
        self._free = threads
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    async def complete(self, tls: ssl.SSLSocket, network: str) -> None:
        """Return when keys are agreed on; `network` is that of the other side. Raises OSError, and
        HandshakeError if there is something to do about it.
        """
        while True:
            try:
                ready = await self._step(partial(_agreed, tls), network)
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                raise
            except ssl.SSLError as error:
                raise _explained(error) from error
            if ready is None:
                return
            await ready(tls)

    def close(self) -> None:
        """End the threads after what they are at; nobody waits for them."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _step(self, step: Callable[[], Ready | None], network: str) -> Ready | None:
        await self._turn(network)
        work: Future[Ready | None] = Future()
        try:
            self._pool.submit(_carry_out, work, step).add_done_callback(partial(_give_up, work))
        except RuntimeError as error:  # of the system's limit; the pool has kept the step
            if work.cancel():
                self._next(error)
                raise OSError("there is no thread for a handshake") from error
        done = asyncio.wrap_future(work)
        done.add_done_callback(self._next)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            while not done.done():  # its socket is about to be closed
                with suppress(asyncio.CancelledError):  # again, as the server stops
                    await asyncio.wait([done])
            if not done.cancelled():
                done.exception()  # nobody else asks for it
            raise
        finally:
            del done, work  # their error knows this frame: a cycle is work for the collector

    async def _turn(self, network: str) -> None:
        """Return when a thread is free for this network."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(network, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next(turn)
            raise

    def _next(self, _: object) -> None:
        """Give a free thread to the network that has waited longest."""
        while self._waiting:
            turn = self._waiting.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _carry_out(work: Future[Ready | None], step: Callable[[], Ready | None]) -> None:
    """Take a step, unless it was given up."""
    if not work.set_running_or_notify_cancel():
        return
    try:
        work.set_result(step())
    except BaseException as error:
        # Its way here would be known to the frame of the pool that knows this: a cycle, too.
        work.set_exception(error.with_traceback(None))


def _give_up(work: Future[Ready | None], _: Future[None]) -> None:
    """Let nobody wait for a step that the pool may have dropped."""
    work.cancel()


def _agreed(tls: ssl.SSLSocket) -> Ready | None:
    """Take a step; returns what the next one waits for, or None if it was the last."""
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return readable
    except ssl.SSLWantWriteError:
        return writable
    return None


def check_beginning(sock: socket.socket, protocol: str) -> None:
    """Look at what a connection begins with, which stays there. Raises HandshakeError if that is
    not TLS, and OSError if it has ended. `protocol` is the listener's security protocol.
    """
    begins = sock.recv(_PEEKED_BYTES, socket.MSG_PEEK)
    if not begins:
        raise ConnectionResetError("closed before it sent anything")
    if begins[0] == _TLS_HANDSHAKE:
        return
    if begins in HTTP_METHODS:
        raise HandshakeError(
            "it speaks HTTP to a listener of Kafka with TLS: connect with a Kafka client"
        )
    if begins[0] == 0:  # of the size of a frame below 16 MiB
        raise HandshakeError(
            f"it speaks Kafka without TLS to a listener of {protocol}: set "
            f"security.protocol={protocol} in the client"
        )
    raise HandshakeError(f"it sent something else than TLS to a listener of {protocol}")


def _explained(error: ssl.SSLError) -> HandshakeError:
    found = distrusted(error)
    if found is not None:
        return HandshakeError(distrust_sentence(found, _WORDS))
    reason = error.reason or str(error)
    if reason in _HINTS:
        return HandshakeError(_HINTS[reason])
    return HandshakeError(f"its handshake failed ({reason})")
