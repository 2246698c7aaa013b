"""The brokers of `kbroker.testing`, in forks of a process that has kbroker's modules already: their
start takes a fifth of the processor time.
"""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from compat_tests.running.forked_kbroker import ForkedKbroker
from kbroker import testing

_starting = threading.Lock()  # as what all brokers of this process start with is replaced meanwhile


class Broker(testing.Broker):
    def start(self, *given: Any, **options: Any) -> None:
        """Return when clients can use it."""
        __tracebackhide__ = True
        forking = SimpleNamespace(**{**vars(subprocess), "Popen": _forked})
        with _starting, patch("kbroker.testing.broker.subprocess", forking):
            super().start(*given, **options)


def _forked(command: list[str], **options: Any) -> ForkedKbroker:
    return ForkedKbroker(*command[command.index("start") :], **options)
