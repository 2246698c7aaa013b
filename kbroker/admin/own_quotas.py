"""OwnQuotas: limits of clients by code of the operator, which `client.quota.callback.class` names.

Law: the code runs on a thread of its own, and the loop never waits for it: the first request of a
client does, and its next one after limits have changed. What raises, takes longer than `ANSWER_S`
or says anything but a limit lifts none: what it said of the client before holds on. A client of
whom it has never said anything may use nothing until it does. The log names it.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, cast

from kbroker.clock import Clock
from kbroker.model import NO_LEADER
from kbroker.own_code import Call, OwnCode, on_loop
from kbroker.quotas.client_limits import Limit, Tags
from kbroker.quotas.client_quota_manager import (
    ACCOUNTS_MAX,
    ClientAccount,
    ClientQuotaManager,
    kept_name,
)
from kbroker.quotas.quota_entity import CLIENT_ID, DEFAULT, USER, EntityName, QuotaEntity
from kbroker.quotas.quota_keys import ClientQuotaType
from kbroker.quotas.rate import Windows
from kbroker.rare_lines import RareLines, note_of
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn

_log = logging.getLogger(__name__)

ANSWER_S: Final = 0.5
AGAIN_MS: Final = 1_000  # after an answer that is none
LOOK_S: Final = 1.0
_RESET, _CLUSTER = "quota_reset_required", "update_cluster_metadata"
_ERROR_CHARACTERS: Final = 200
_TIMES_IN_LINE: Final = 20  # of ANSWER_S, when thousands come at once

_Key = tuple[str, str]
_Limits = tuple[Limit, ...]  # in the order of kinds
_Stored = dict[tuple[ClientQuotaType, EntityName, EntityName], float | None]


class QuotaCallback(NamedTuple):
    """The operator's code: its name in the settings, and an object that has `quota_metric_tags` and
    `quota_limit`, and may have `update_quota`, `remove_quota`, `quota_reset_required`,
    `update_cluster_metadata` and `close`.
    """

    name: str
    code: Any


class QuotaCluster(NamedTuple):
    """The cluster as the operator's code is told of it."""

    cluster_id: str
    controller_id: int
    broker_ids: tuple[int, ...]  # of those that are alive
    leaders: Mapping[str, Mapping[int, int]]  # by topic and partition, -1 for none


class _Known(NamedTuple):
    limits: _Limits
    changes: int  # that the code had been told of
    until_ms: float
    is_said: bool  # by the code; else it has never said anything


class _WrongAnswerError(Exception):
    pass


class OwnQuotas(ClientQuotaManager):
    """The limits of a broker, and where those of the tree are told to the operator's code."""

    asks_ahead: ClassVar[bool] = True

    def __init__(
        self,
        callback: QuotaCallback,
        clock: Clock,
        windows: tuple[Windows, Windows],
        on_change: Callable[[], None],
        metadata: MetadataCache,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`on_change` is called after limits have changed."""
        super().__init__(_Everybody(), *windows)
        self._name, self._callback = callback
        self._clock = clock
        self._on_change = on_change
        self._metadata = metadata
        self._metadata_since: object = None  # that the code was told of
        self._answer_s = answer_s
        self._lines = RareLines()
        self._code = OwnCode("client-quotas")
        self.late: Call | None = None
        """The call that has not been answered in time, whether or not it has been since."""
        self._known_clients: dict[_Key, _Known] = {}
        self._asking: dict[_Key, asyncio.Task[None]] = {}
        self._told: dict[tuple[EntityName, EntityName], Mapping[ClientQuotaType, float]] = {}
        self._untold: _Stored = {}
        self._is_telling = False
        self._looking: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._ended: deque[list[Callable[[], object]]] = deque()  # calls that the loop hears of
        self._is_waking = False
        self.changes = 0
        """The number of changes of the tree's limits so far."""
        self._resets = 0

    async def start(self) -> None:
        """Count from now on, and look whether limits have changed elsewhere."""
        self._on_change()
        if any(hasattr(self._callback, name) for name in (_RESET, _CLUSTER)):
            self._looking = asyncio.create_task(self._look_for_changes(), name="client-quotas")

    async def stop(self) -> None:
        """Ask no more, and let the code end, for which nobody waits for long."""
        if self._again is not None:
            self._again.cancel()
        tasks = [*self._asking.values(), *([self._looking] if self._looking else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if hasattr(self._callback, "close") and self.late is None:
            await self._outcome(self._callback.close)
        self._code.stop()

    # ---- limits of the tree

    def put(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        """Tell the code of the limits that an entity has now. Raises ValueError for an address."""
        if entity.ip is not None or entity.user is entity.client_id is None:
            raise ValueError(f"{entity} has no limits of clients")
        names = entity.user, entity.client_id
        given = {kind: values[kind.value] for kind in ClientQuotaType if kind.value in values}
        before = self._told.get(names, {})
        if given == before:
            return
        self.changes += 1
        if given:
            self._told[names] = given
        else:
            del self._told[names]
        for kind in ClientQuotaType:
            if given.get(kind) != before.get(kind):
                self._untold[kind, *names] = given.get(kind)
        self._tell_changes()

    def _tell_changes(self) -> None:
        if self._is_telling or not self._untold:
            return
        some, self._untold = self._untold, {}
        loop = asyncio.get_running_loop()
        call = self._code.call(
            self._pass_on, some, on_done=lambda: on_loop(loop, self._passed_on, some)
        )
        self._is_telling = call is not None
        if call is None:
            self._untold = some
            self._tell("there is no thread for it")

    def _pass_on(self, some: _Stored) -> None:
        """Tell the code of these changes, on its thread."""
        for (kind, user, client_id), limit in some.items():
            entity = {
                key: None if name is DEFAULT else name
                for key, name in ((USER, user), (CLIENT_ID, client_id))
                if name is not None
            }
            try:
                if limit is None:
                    tell = getattr(self._callback, "remove_quota", None)
                    arguments: tuple[Any, ...] = (kind.name, entity)
                else:
                    tell = getattr(self._callback, "update_quota", None)
                    arguments = (kind.name, entity, limit)
                if tell is not None:
                    tell(*arguments)
            except BaseException as error:
                text = f"it raised {error!r} when told of a limit"[:_ERROR_CHARACTERS]
                _log.error("client.quota.callback.class=%s: %s", self._name, text)

    def _passed_on(self, _some: _Stored) -> None:
        self._is_telling = False
        self.ask_again()
        self._tell_changes()

    def ask_again(self) -> None:
        """Ask about each client before its next request."""
        self._resets += 1
        self._on_change()

    async def _look_for_changes(self) -> None:
        while True:
            if self.late is None or self.late.done.is_set():
                has_reset = hasattr(self._callback, _RESET) and await self._outcome(self._has_reset)
                is_other_cluster = hasattr(self._callback, _CLUSTER) and await self._tell_cluster()
                if has_reset is True or is_other_cluster is True:
                    self.ask_again()
            await asyncio.sleep(LOOK_S)

    async def _tell_cluster(self) -> Any:
        """Tell the code of metadata that have changed; returns whether its limits have, too."""
        metadata, since = self._metadata, self._metadata.answers.since
        if since is self._metadata_since:
            return False
        leaders: dict[str, dict[int, int]] = {}
        for some in slices(metadata.topics(), ENTRIES):
            for name in some:
                states = metadata.partition_states(name)
                leaders[name] = {
                    index: max(NO_LEADER, state.leader) for index, state in states.items()
                }
            await turn()
        cluster = QuotaCluster(
            metadata.cluster_id,
            metadata.controller_id,
            tuple(broker.broker_id for broker in metadata.alive_brokers()),
            leaders,
        )
        self._metadata_since = since
        return await self._outcome(self._callback.update_cluster_metadata, cluster)

    def _has_reset(self) -> bool:
        """Ask on the thread whether limits are others now."""
        answers = [self._callback.quota_reset_required(kind.name) for kind in ClientQuotaType]
        return any(answer is True for answer in answers)

    # ---- limits of clients

    def has(self, kind: ClientQuotaType) -> bool:  # noqa: ARG002  the code decides
        return True

    def ask(self, principal: str, client_id: str | None) -> Awaitable[None] | None:
        """Find out what holds for a client; None: it is known."""
        key = kept_name(principal), kept_name(client_id or "")
        known = self._known_clients.get(key)
        if known is not None and self._holds(known):
            self._known_clients[key] = self._known_clients.pop(key)  # used last, so let go last
            return None
        task = self._asking.get(key)
        if task is None:
            asking = self._ask(key, principal, client_id or "")
            task = self._asking[key] = asyncio.create_task(asking, name="client-quotas")
        return asyncio.shield(task)  # others may wait for it

    def account(self, principal: str, client_id: str | None, now_ms: float) -> ClientAccount:
        """As that of its base. A client that nobody has asked about may use nothing."""
        if (kept_name(principal), kept_name(client_id or "")) in self._known_clients:
            return super().account(principal, client_id, now_ms)
        return self._find(principal, client_id, now_ms)

    def _limits_of(self, principal: str, client_id: str | None) -> _Limits:
        known = self._known_clients.get((kept_name(principal), kept_name(client_id or "")))
        return _nothing(principal, client_id or "") if known is None else known.limits

    def _holds(self, known: _Known) -> bool:
        return known.changes == self._resets and self._clock.monotonic_ms() < known.until_ms

    async def _ask(self, key: _Key, principal: str, client_id: str) -> None:
        try:
            changes = self._resets
            late = partial(self._learn_late, key, changes)
            said = await self._outcome(self._said, principal, client_id, late=late)
            before = self._known_clients.get(key)
            if said is not None:
                known = _Known(said, changes, math.inf, is_said=True)
            else:
                until_ms = self._clock.monotonic_ms() + AGAIN_MS
                limits = _nothing(principal, client_id) if before is None else before.limits
                known = _Known(limits, changes, until_ms, before is not None and before.is_said)
                self._forget_soon()
            self._learn(key, known)
        finally:
            del self._asking[key]

    def _learn(self, key: _Key, known: _Known) -> None:
        before = self._known_clients.pop(key, None)
        if len(self._known_clients) >= ACCOUNTS_MAX:
            del self._known_clients[next(iter(self._known_clients))]
        self._known_clients[key] = known
        if before is not None and before.limits != known.limits:
            self._on_change()

    def _learn_late(self, key: _Key, changes: int, call: Call) -> None:
        """Take an answer that nobody waits for any more, unless there is a newer one."""
        before = self._known_clients.get(key)
        is_needed = before is None or (before.until_ms < math.inf and before.changes <= changes)
        if call.error is None and is_needed:
            limits = cast(_Limits, call.answer)
            self._learn(key, _Known(limits, changes, math.inf, is_said=True))

    def _forget_soon(self) -> None:
        """Let connections forget what they learn until clients may be asked about again: they would
        go on with it, and ask nobody.
        """
        if self._again is None:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(AGAIN_MS / 1000, self._forget)

    def _forget(self) -> None:
        self._again = None
        self._on_change()

    def _said(self, principal: str, client_id: str) -> _Limits:
        """Ask on the thread for the limits of a client."""
        limits = []
        for kind in ClientQuotaType:
            tags = self._callback.quota_metric_tags(kind.name, principal, client_id)
            if not isinstance(tags, Mapping) or not all(
                isinstance(each, str) for pair in tags.items() for each in pair
            ):
                raise _WrongAnswerError(
                    f"quota_metric_tags said {_of(tags)}, and not a dict of texts"
                )
            limit = self._callback.quota_limit(kind.name, dict(tags))
            limits.append(Limit(_limit_in(limit), _tags_in(tags)))
        return tuple(limits)

    async def _outcome(
        self,
        code: Callable[..., Any],
        *arguments: Any,
        late: Callable[[Call], object] | None = None,
    ) -> Any:
        """Return the answer of code on the thread; None if it has none, which the log says. `late`
        gets the call if it ends later.
        """
        if self.late is not None and not self.late.done.is_set():
            return self._tell("it is still at a former question")
        self.late = None
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        at_end: list[Callable[[], object]] = [done.set]
        call = self._code.call(code, *arguments, on_done=lambda: self._on_end(loop, at_end))
        if call is None:
            return self._tell("there is no thread for it")
        if not await self._ends(call, done):
            self.late = call
            if late is not None:
                at_end[0] = partial(late, call)
            return self._tell(f"it has not answered within {self._answer_s:g} s")
        if isinstance(call.error, _WrongAnswerError):
            return self._tell(str(call.error))
        if call.error is not None:
            return self._tell(f"it raised {call.error!r}"[:_ERROR_CHARACTERS])
        return call.answer

    async def _ends(self, call: Call, done: asyncio.Event) -> bool:
        """Wait for the end of a call; also in line, as long as the code answers others."""
        for _ in range(_TIMES_IN_LINE):
            before = self._code.latest
            try:
                async with asyncio.timeout(self._answer_s):
                    await done.wait()
                return True
            except TimeoutError:
                if call.done.is_set():  # the loop was held up, and not the code
                    return True
                if self._code.latest is before:
                    break
        return False

    def _on_end(self, loop: asyncio.AbstractEventLoop, at_end: list[Callable[[], object]]) -> None:
        """Wake the loop, on the thread, once for many calls: each time may cost the thread 5 ms."""
        self._ended.append(at_end)
        if not self._is_waking:
            self._is_waking = True
            on_loop(loop, self._wake)

    def _wake(self) -> None:
        self._is_waking = False  # before a look, as the thread goes on
        while self._ended:
            self._ended.popleft()[0]()

    def _tell(self, reason: str) -> None:
        left_out = self._lines.left_out("limits", reason, self._clock.monotonic_ms())
        if left_out is not None:
            _log.error(
                "client.quota.callback.class=%s lifts no limit: %s%s",
                self._name,
                reason,
                note_of(left_out),
            )


class _Everybody:
    """A LimitSource that is not asked: limits are those of OwnQuotas."""

    def has(self, _kind: ClientQuotaType, /) -> bool:
        return True

    def limit_of(self, _kind: ClientQuotaType, user: str, client_id: str | None, /) -> Limit:
        return Limit(0.0, Tags(user, client_id or ""))


def _nothing(principal: str, client_id: str) -> _Limits:
    tags = Tags(kept_name(principal.partition(":")[2]), kept_name(client_id))
    return tuple(Limit(0.0, tags) for _ in ClientQuotaType)


def _limit_in(limit: object) -> float | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        raise _WrongAnswerError(f"quota_limit said {_of(limit)}, and not a number or None")
    if math.isnan(limit) or limit < 0:
        raise _WrongAnswerError(f"quota_limit said {limit}, which is not a limit")
    return None if math.isinf(limit) else float(limit)


def _tags_in(tags: Mapping[str, str]) -> Tags:
    kept = {kept_name(name): kept_name(value) for name, value in tags.items()}
    others = tuple(sorted((k, v) for k, v in kept.items() if k not in (USER, CLIENT_ID)))
    return Tags(kept.get(USER, ""), kept.get(CLIENT_ID, ""), others)


def _of(answer: object) -> str:
    return f"a value of type {type(answer).__name__}"
