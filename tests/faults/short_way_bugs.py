"""Known mistakes of the short way of repeated requests, each a context manager that makes a broker
commit it.

The hunt must find every one of them: otherwise that it finds nothing means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from typing import Any
from unittest.mock import patch

from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.apis.fetch_shortcut import FetchShortcut
from kbroker.apis.lanes import Lanes
from kbroker.apis.permitted_shortcut import PermittedShortcut
from kbroker.apis.produce_shortcut import ProduceShortcut
from kbroker.apis.served_api import Served
from kbroker.apis.session_fetch_shortcut import SessionFetchShortcut
from kbroker.protocol import template
from kbroker.protocol.message_layout import Stretch
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.template import Template, _FormPart
from kbroker.record.record_batch import TRANSACTIONAL_BIT
from kbroker.replication.kept_answers import KeptAnswers
from kbroker.replication.reads.fetch_session import FetchSession

Mistake = Callable[[], AbstractContextManager[Any]]


def tail_not_compared() -> AbstractContextManager[Any]:
    """A template does not look at the last byte that is repeated."""
    original = template._pattern

    def pattern(stretch: Stretch) -> Any:
        found = original(stretch)
        if not found.same:
            return found
        *others, (place, repeated) = sorted(found.same)
        return found._replace(same=(*others, (place, repeated[:-1])))

    return patch.object(template, "_pattern", pattern)


def end_not_compared() -> AbstractContextManager[Any]:
    """A request may go on behind the end of the template."""
    original = Template.read

    def read(self: Template, buffer: bytearray, start: int, end: int) -> Any:
        found = original(self, buffer, start, end)
        return original(self, buffer, start, end - 1) if found is None else found

    return patch.object(Template, "read", read)


def transactional_bit_forgotten() -> AbstractContextManager[Any]:
    """Batches of a transaction are appended for a producer without one."""
    original = ProduceShortcut.__init__

    def init(self: ProduceShortcut, *arguments: Any) -> None:
        original(self, *arguments)
        self._left_to_handler &= ~TRANSACTIONAL_BIT

    return patch.object(ProduceShortcut, "__init__", init)


def field_of_the_answer_before() -> AbstractContextManager[Any]:
    """The last number of an answer is that of the first answer made from its form."""
    first: dict[int, tuple[_FormPart, int]] = {}
    original = _FormPart.fill

    def fill(self: _FormPart, numbers: Iterator[int]) -> bytes:
        mine = list(islice(numbers, len(self.places)))
        if len(mine) > 1:  # the first is the correlation id
            _, mine[-1] = first.setdefault(id(self), (self, mine[-1]))
        return original(self, iter(mine))

    return patch.object(_FormPart, "fill", fill)


def buffer_not_kept() -> AbstractContextManager[Any]:
    """A request that waits looks at a buffer that is used again."""
    return patch.object(Lanes, "is_viewed", property(lambda _: False, lambda *_: None))


def topic_id_not_looked_up() -> AbstractContextManager[Any]:
    """A topic keeps its name although another one has it by now."""
    original = ProduceShortcut.__init__

    def init(self: ProduceShortcut, *arguments: Any) -> None:
        original(self, *arguments)
        self._ids = []

    return patch.object(ProduceShortcut, "__init__", init)


def offsets_of_the_fetch_learnt() -> AbstractContextManager[Any]:
    """A fetch reads where the one began from which it was learnt."""
    original = FetchShortcut._ask

    def ask(self: FetchShortcut, values: Any) -> bool:
        before = [asked.fetch_offset for asked in self._asked_for]
        can_answer = original(self, values)
        for asked, offset in zip(self._asked_for, before, strict=True):
            asked.fetch_offset = offset
        return can_answer

    return patch.object(FetchShortcut, "_ask", ask)


def offsets_of_the_session_kept() -> AbstractContextManager[Any]:
    """A fetch in a session reads on from where it was, although the consumer went elsewhere."""
    original = SessionFetchShortcut._context

    def context(self: SessionFetchShortcut, values: Any) -> Any:
        session = self._sessions.find(self._request.session_id)
        before = {} if session is None else {a: a.fetch_offset for a in session.partitions.values()}
        found = original(self, values)
        for asked, offset in before.items():
            asked.fetch_offset = offset if found is not None else asked.fetch_offset
        return found

    return patch.object(SessionFetchShortcut, "_context", context)


def epoch_not_compared() -> AbstractContextManager[Any]:
    """A session goes on with whatever epoch."""
    original = SessionFetchShortcut._context

    def context(self: SessionFetchShortcut, values: Any) -> Any:
        session = self._sessions.find(self._request.session_id)
        if session is not None:
            values[1] = session.epoch
        return original(self, values)

    return patch.object(SessionFetchShortcut, "_context", context)


def busy_partition_not_last() -> AbstractContextManager[Any]:
    """A partition with records is read first again."""
    original = SessionFetchShortcut._answered

    def answered(self: SessionFetchShortcut, *arguments: Any) -> Any:
        with patch.object(FetchSession, "answered", lambda *_: None):
            return original(self, *arguments)

    return patch.object(SessionFetchShortcut, "_answered", answered)


def metadata_not_forgotten() -> AbstractContextManager[Any]:
    """Answers to Metadata stay as they were when the cluster changes."""
    return patch.object(KeptAnswers, "forget", lambda _: None)


def templates_not_forgotten() -> AbstractContextManager[Any]:
    """Connections keep what they have learnt when authorizer and quotas change."""
    return patch.object(Served, "is_in_force", property(lambda _: True, lambda *_: None))


# Under access rules.


def decision_kept_over_a_change() -> AbstractContextManager[Any]:
    """A connection goes on with what was granted for a template once."""
    granted: set[int] = set()
    original = PermittedShortcut.answer

    def answer(self: PermittedShortcut, values: list[Any]) -> Any:
        if id(self) in granted:
            return self._answer(values)
        found = original(self, values)
        if found is not None:
            granted.add(id(self))
            _kept.append(self)  # or another one could have its id
        return found

    return patch.object(PermittedShortcut, "answer", answer)


_kept: list[PermittedShortcut] = []


def decision_kept_over_a_login() -> AbstractContextManager[Any]:
    """A grant holds until rules change, whoever has logged in since."""
    granted: dict[int, object] = {}
    original = PermittedShortcut.answer

    def answer(self: PermittedShortcut, values: list[Any]) -> Any:
        since = self._permits.__self__.rules.since  # type: ignore[attr-defined]
        if granted.get(id(self)) is since:
            return self._answer(values)
        found = original(self, values)
        if found is not None:
            granted[id(self)] = since
            _kept.append(self)
        return found

    return patch.object(PermittedShortcut, "answer", answer)


def only_the_first_topic_is_asked_for() -> AbstractContextManager[Any]:
    """Other topics of the same template are taken to be granted with the first."""
    original = PermittedShortcut.__init__

    def init(self: PermittedShortcut, *arguments: Any) -> None:
        original(self, *arguments)
        del self._wishes[1:]

    return patch.object(PermittedShortcut, "__init__", init)


def shortcut_of_another_client() -> AbstractContextManager[Any]:
    """Clients that have just come use a shortcut with the connection that has learnt it."""
    return patch.object(PermittedShortcut, "is_for_all", True)


def session_not_asked_for_again() -> AbstractContextManager[Any]:
    """A session is taken up for whoever began it with some rights."""
    return _without_reader(SessionFetchShortcut, "_context")


def waiting_fetch_not_asked_for_again() -> AbstractContextManager[Any]:
    """A fetch that has waited is answered by the rules of its beginning."""
    stack = ExitStack()
    stack.enter_context(_without_reader(SessionFetchShortcut, "_ended"))
    stack.enter_context(_without_reader(FetchShortcut, "_ended"))
    return stack


def _without_reader(cls: type[Any], name: str) -> AbstractContextManager[Any]:
    """Let a method find that everybody may read everything."""
    original = getattr(cls, name)

    def method(self: Any, *arguments: Any) -> Any:
        reader, self._reader = self._reader, None
        try:
            return original(self, *arguments)
        finally:
            self._reader = reader

    return patch.object(cls, name, method)


def metadata_kept_over_a_change_of_rules() -> AbstractContextManager[Any]:
    """Answers to Metadata are found by principal and address alone."""

    def rules_for(_self: AclAuthorizer, connection: ConnectionInfo) -> object:
        return connection.principal, connection.peer_host

    return patch.object(AclAuthorizer, "rules_for", rules_for)


def metadata_of_another_principal() -> AbstractContextManager[Any]:
    """Answers to Metadata are found by the rules alone."""
    return patch.object(AclAuthorizer, "rules_for", lambda self, _: self.rules.since)


PLANTED: tuple[Mistake, ...] = (
    tail_not_compared,
    end_not_compared,
    transactional_bit_forgotten,
    field_of_the_answer_before,
    buffer_not_kept,
    topic_id_not_looked_up,
    offsets_of_the_fetch_learnt,
    offsets_of_the_session_kept,
    epoch_not_compared,
    busy_partition_not_last,
    metadata_not_forgotten,
    templates_not_forgotten,
)

PLANTED_UNDER_RULES: tuple[Mistake, ...] = (
    decision_kept_over_a_change,
    decision_kept_over_a_login,
    only_the_first_topic_is_asked_for,
    shortcut_of_another_client,
    session_not_asked_for_again,
    waiting_fetch_not_asked_for_again,
    metadata_kept_over_a_change_of_rules,
    metadata_of_another_principal,
)
