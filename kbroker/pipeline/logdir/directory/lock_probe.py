"""Whether a broker runs on a data directory: asks who holds its `.lock`, and takes no lock.

Kafka takes the POSIX kind of lock, kbroker that and flock. Linux lists both in /proc/locks; a
broker it does not list, because it runs in another container or on another machine of a shared
disk, is found by asking for the lock's holder. The list comes first: a process that holds a POSIX
lock loses it when it closes the file, and a broker may run in this very process.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from kbroker.log.disk.format import LOCK_FILE

_LOCKS = "/proc/locks"
_IS_BSD = sys.platform == "darwin"
_FLOCK = "qqihh" if _IS_BSD else "hhqqi"  # struct flock of fcntl(2)
_TYPE = 3 if _IS_BSD else 0


def is_locked(data_directory: str) -> bool:
    """True if a running broker holds the data directory."""
    path = os.path.join(data_directory, LOCK_FILE)
    try:
        found = os.stat(path)
    except OSError:
        return False
    return _is_listed(found) or _has_holder(path)


def _is_listed(found: os.stat_result) -> bool:
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open(_LOCKS) as locks:
            return any(place in line.split() for line in locks)
    except OSError:
        return False


def _has_holder(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        wanted = (0, 0, 0, fcntl.F_RDLCK, 0) if _IS_BSD else (fcntl.F_RDLCK, 0, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *wanted))
        return bool(struct.unpack(_FLOCK, answer)[_TYPE] != fcntl.F_UNLCK)
    except OSError:
        return False  # a file system without locks: nobody can hold one
    finally:
        os.close(descriptor)
