"""Frames out of chunks as they come, for whoever plays a peer with plain sockets."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.protocol.frame import next_frame


class FrameDecoder:
    r"""Turns received chunks into whole frames.

    >>> decoder = FrameDecoder(max_bytes=8)
    >>> list(decoder.feed(b"\0\0\0\x02a")), list(decoder.feed(b"b"))
    ([], [b'ab'])
    """

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._start = 0  # what lies before has been handed out
        self._max_bytes = max_bytes

    def feed(self, chunk: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """Take a chunk and return the frames that are whole now; those not iterated come with the
        next chunk.

        The iterator raises ProtocolError for a bad size, after the good frames before it.
        """
        del self._buffer[: self._start]
        self._start = 0
        self._buffer += chunk
        return self._frames()

    def _frames(self) -> Iterator[bytes]:
        while (
            found := next_frame(self._buffer, self._start, len(self._buffer), self._max_bytes)
        ) is not None:
            frame_start, self._start = found
            yield bytes(memoryview(self._buffer)[frame_start : self._start])
