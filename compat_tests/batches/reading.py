"""What a Java consumer reads of what brokers have stored."""

from __future__ import annotations

import struct
import subprocess

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running.apache_kafka import NEWEST

_RECORD = struct.Struct(">iqii")
UNREADABLE = -1

Found = dict[tuple[int, int], int]  # partition and offset: a checksum, or UNREADABLE


class JavaReader:
    """One consumer of each broker, in one process for as long as the hunt takes."""

    def __init__(self) -> None:
        command = java_command(kept_classes("Reader", NEWEST), NEWEST, "Reader")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def new_records(self, bootstrap: str, topic: str, partitions: int) -> Found:
        """Read what was appended since the last time."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(f"{bootstrap} {topic} {partitions}\n".encode())
        asked.flush()
        (size,) = struct.unpack(">i", told.read(4))
        return {
            (partition, offset): UNREADABLE if unreadable else checksum & 0xFFFF_FFFF
            for partition, offset, checksum, unreadable in _RECORD.iter_unpack(told.read(size))
        }

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
