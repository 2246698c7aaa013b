"""kbroker's commands and brokers, in processes that have its modules already.

The suite starts more than a thousand of them, and each would spend most of its processor time on
imports: 0.3 s for a broker that serves after 0.02 s of work. So each process that runs tests has one
`forking_server`, which has imported kbroker and forks a process per command, and once there is a
command of the pipeline, another one for these, which import Arrow. Where a test is about the start
itself (what is imported, the environment's language, limits), it starts a program.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from array import array
from functools import cache
from pathlib import Path
from typing import Any

PIPELINE = "pipeline"  # the first word of its commands
_FORKING = "compat_tests.running.forking_server"
STATUS = struct.Struct("i")  # as of os.waitpid, when the process has ended


class ForkedKbroker(subprocess.Popen[Any]):
    """A Popen of `kbroker ARGUMENTS`, with its options for text, pipes, environment, folder and a
    session of its own.
    """

    def __init__(self, *arguments: str, **options: Any) -> None:
        super().__init__([*arguments], **options)

    # What Popen does by itself but for two steps: how the process is made, and how it is waited for.
    # Its signature is that of Python 3.11 to 3.13.
    def _execute_child(self, args: list[str], *rest: Any) -> None:
        preexec_fn, pass_fds, cwd, env, start_new_session = (rest[n] for n in (1, 3, 4, 5, 20))
        assert (preexec_fn, pass_fds) == (None, ()), "start a program"
        pipes = rest[9:15]  # parent's and child's ends of standard input, output and error
        ends = (pipes[0], pipes[3], pipes[5])
        self._ended, told = os.pipe()
        try:
            self.pid = _server(*(name for name in args[:1] if name == PIPELINE)).fork(
                {
                    "arguments": args,
                    "directory": os.fspath(cwd or os.getcwd()),
                    "environment": dict(os.environ if env is None else env),
                    "has_session": start_new_session,
                },
                [*(number if end == -1 else end for number, end in enumerate(ends)), told],
            )
        except BaseException:
            os.close(self._ended)
            raise
        finally:
            os.close(told)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        ended = select.poll()  # which takes descriptors of any number
        ended.register(self._ended, select.POLLIN)
        if not ended.poll(0 if wait_flags & os.WNOHANG else None):
            return 0, 0
        (status,) = STATUS.unpack(os.read(self._ended, STATUS.size))
        os.close(self._ended)
        return self.pid, status

    def _internal_poll(self, **_deadstate: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


class _Server:
    """The other end of `forking_server`."""

    def __init__(self, *kind: str) -> None:
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _FORKING, str(theirs.fileno()), *kind],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=Path(__file__).parents[2],
            )
        atexit.register(self.end)

    def fork(self, command: dict[str, Any], descriptors: list[int]) -> int:
        """Run the command with these as standard input, output and error, and for its status."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))
        with self._lock:
            self._line.sendmsg([json.dumps(command).encode()], [rights])
            return int(self._line.recv(64))

    def end(self) -> None:
        self._line.close()
        self._process.wait()


@cache
def _server(*kind: str) -> _Server:
    return _Server(*kind)
