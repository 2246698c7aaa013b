"""`bare_loop.c` in Python on uvloop, the loop that kbroker has: the same arguments, the same bytes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import uvloop

_CORRELATION_ID, _ANSWERED_ID = 8, 4


class BareLoop(asyncio.Protocol):
    """Reads a frame, writes its batch to a file, sends an answer."""

    written = 0

    def __init__(self, answer: bytes, batch_at: int, batch_bytes: int, file: int) -> None:
        self._before, self._after = answer[:_ANSWERED_ID], answer[_ANSWERED_ID + 4 :]
        self._batch, self._file = slice(batch_at, batch_at + batch_bytes), file
        self._rest = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way for answers."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer all whole frames by one write."""
        data = self._rest + data if self._rest else data
        answers, at = [], 0
        while len(data) >= at + 4:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if len(data) < end:
                break
            start = at + self._batch.start
            batch = memoryview(data)[start : at + self._batch.stop]
            BareLoop.written += os.pwrite(self._file, batch, BareLoop.written)
            number = data[at + _CORRELATION_ID : at + _CORRELATION_ID + 4]
            answers += (self._before, number, self._after)
            at = end
        self._rest = data[at:]
        if answers:
            self._transport.write(b"".join(answers))


async def serve(content: bytes, batch_at: int, batch_bytes: int, file: int) -> None:
    """Serve connections until killed."""
    server = await asyncio.get_running_loop().create_server(
        lambda: BareLoop(content, batch_at, batch_bytes, file), "127.0.0.1"
    )
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main(answer: str, batch_at: str, batch_bytes: str, path: str) -> None:
    """Open the file, and serve."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    uvloop.run(serve(Path(answer).read_bytes(), int(batch_at), int(batch_bytes), file))


if __name__ == "__main__":
    main(*sys.argv[1:])
