"""What right requests need to be there: topics, groups, members and producers of a run's own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import FULL
from compat_tests.wire.group_member import Member, commit
from compat_tests.wire.wire_client import INIT_PRODUCER_ID, WireClient

_SESSION_TIMEOUT_MS = 300_000  # longer than all questions of a key


class Stage:
    """Things of one key and version. What is shared is made once, at its first use."""

    def __init__(self, caller: Caller, name: str) -> None:
        self.caller = caller
        self.names = caller.names
        self._name = name
        self._count = 0
        self._made: set[str] = set()
        self._held: dict[str, Any] = {}
        self._stack = ExitStack()
        self._client: WireClient | None = None

    def close(self) -> None:
        """Give the connection up; what follows is about other things."""
        self._stack.close()
        self.caller.about -= self._made

    def fresh(self, kind: str) -> str:
        """A name that nothing has."""
        self._count += 1
        name = f"{kind}-{self._name}-{self._count}"
        self.names.own.add(name)
        self.caller.about.add(name)
        self._made.add(name)
        return name

    def made_topic(self, *, is_shared: bool = False) -> str:
        """A topic of one partition."""
        if is_shared and "topic" in self._held:
            return str(self._held["topic"])
        name = self.fresh("made")
        self.client().create_topic(self.names.on_broker(name))
        self._held["topic"] = name
        return name

    def member(self, *, is_shared: bool = True) -> Member:
        """The only member of a stable group; its group's name is ours."""
        if is_shared and "member" in self._held:
            return self._held["member"]  # type: ignore[no-any-return]
        name = self.fresh("group")
        member = Member(self.client(), self.names.on_broker(name))
        assert member.join(session_timeout=_SESSION_TIMEOUT_MS).error_code.value == 0
        assert member.sync() == "0"
        member.group = name
        self._held["member"] = member
        return member

    def offsets(self, *, is_shared: bool = True) -> str:
        """A group without members that has an offset."""
        if is_shared and "offsets" in self._held:
            return str(self._held["offsets"])
        name = self.fresh("group")
        said = commit(self.client(), self.names.on_broker(name), self.names.on_broker(FULL))
        assert said == "0", said
        self._held["offsets"] = name
        return name

    def transactional_id(self) -> str:
        """A transactional id, the same each time."""
        if "transactional id" not in self._held:
            self._held["transactional id"] = self.fresh("producer")
        return str(self._held["transactional id"])

    def producer(self) -> tuple[str, int, int]:
        """Transactional id, producer id and epoch, the same each time."""
        if "producer" not in self._held:
            name = self.transactional_id()
            made = self.client().call(
                INIT_PRODUCER_ID, 4, transactional_id=self.names.on_broker(name),
                transaction_timeout=60_000, producer_id=-1, producer_epoch=-1,
            )  # fmt: skip
            assert made.error_code.value == 0, made
            self._held["producer"] = (name, made.producer_id, made.producer_epoch)
        return self._held["producer"]  # type: ignore[no-any-return]

    def client(self) -> WireClient:
        """A connection beside that of the questions."""
        if self._client is None:
            self._client = self._stack.enter_context(self.caller.beside())
        return self._client
