"""A connection to an ensemble that answers when the test says so."""

from __future__ import annotations

from collections import deque
from typing import Any

from kazoo.exceptions import ConnectionLoss

from kbroker.config.zk_access import ZkAccess
from kbroker.zk.ensemble.kazoo_connection import ConnectionListener, OnAnswer
from kbroker.zk.ensemble.kazoo_requests import Request


class ScriptedConnection:
    """Fulfils `Connection`. `sent` are the requests of the connection that stands, in order."""

    def __init__(
        self,
        _hosts: str,
        _session_timeout_ms: int,
        listener: ConnectionListener,
        _access: ZkAccess,
    ) -> None:
        self.last_zxid = 0
        self.last_complaint = "cut"
        self.connected = False
        self.sent: list[Request] = []
        self._listener = listener
        self._pending: deque[OnAnswer] = deque()

    def start(self) -> None:
        """The test connects it."""

    def submit(self, request: Request, on_answer: OnAnswer) -> bool:
        if not self.connected:
            return False
        self.sent.append(request)
        self._pending.append(on_answer)
        return True

    async def close(self, timeout_s: float) -> None:
        self.connected = False

    def connect(self, session_id: int = 1) -> None:
        self.connected = True
        self.sent.clear()
        self._listener.on_connected(session_id)

    def answer(self, *answers: Any) -> None:
        """Answer the oldest requests."""
        for answer in answers:
            on_answer = self._pending.popleft()
            if isinstance(answer, Exception):
                on_answer(None, answer)
            else:
                on_answer(answer, None)

    def cut(self) -> None:
        self.connected = False
        while self._pending:
            self.answer(ConnectionLoss())
        self._listener.on_suspended(self.last_zxid)

    def lose_session(self) -> None:
        self.connected = False
        self._listener.on_lost(self.last_zxid)
        while self._pending:
            self.answer(ConnectionLoss())
        self.last_zxid = 0
