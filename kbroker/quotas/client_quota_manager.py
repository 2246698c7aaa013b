"""ClientQuotaManager: what clients use, counted against the limits that hold for them.

Law: clients that share a limit share what is counted, and nothing is counted for those without one.
What a client uses is kept for an hour after its last use, and of a bounded number of them: who is
forgotten has a fresh start, so those go first that were idle for longest. No name is kept that is
longer than `LONGEST_KEPT`, as a client may call itself what it likes: its digest stands for it.

Owned by the event loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

from kbroker.counters import RecentRate
from kbroker.quotas.client_limits import Limit, Tags
from kbroker.quotas.quota_keys import ClientQuotaType
from kbroker.quotas.rate import (
    LONGEST_THROTTLE_MS,
    SampledRate,
    TokenBucket,
    Windows,
    rounded_ms,
)
from kbroker.quotas.recent_mean import RecentMean

IDLE_MS = 3_600_000
KEPT_MAX = 20_000  # of those that share a limit
ACCOUNTS_MAX = 20_000
LONGEST_KEPT = 249  # characters of a name, as of a topic's
_LOOK_MS = 60_000  # for idle ones, at most so often
_MOST_PER_S = 1e18  # beyond which no limit can be told from none
_AS_GOOD_AS_ALL = 0.99
_SHARE_LET_GO = 10  # one of so many at once, if there are too many


class Quota:
    """A limit, with the use that all clients make of it who share it."""

    __slots__ = ("__weakref__", "_delays", "limit", "tags", "used_ms")

    def __init__(self, tags: Tags, limit: float, now_ms: float) -> None:
        self.tags = tags
        self.limit = limit
        self.used_ms = now_ms
        self._delays: RecentMean | None = None

    def set_limit(self, limit: float, now_ms: float) -> None:  # noqa: ARG002  rates use it
        """Let another limit hold for what was used so far, too."""
        self.limit = limit

    def throttled(self, delay_ms: int, now_ms: float) -> int:
        """Note a delay, and return it."""
        if self._delays is None:
            self._delays = RecentMean()
        self._delays.record(delay_ms, now_ms)
        return delay_ms

    def throttle_ms(self, now_ms: float) -> float:
        """The mean of the delays of late; 0 if there was none."""
        return 0.0 if self._delays is None else self._delays.mean(now_ms)


class RateQuota(Quota):
    """A limit of what is used in a second. All windows but the current one may be used at once;
    then the client pauses until as much has come as it has used beyond that.

    Law: what came last is used first, and what is as old as these windows is lost. Or a client that
    is slow to use them up would be above its limit for long.
    """

    __slots__ = (
        "_at_ms",
        "_half_ms",
        "_half_since_ms",
        "_least",
        "_least_before",
        "_left",
        "_longest_ms",
        "_lost",
        "_most",
        "_per_ms",
        "_recent",
        "_used",
        "_windows",
    )

    def __init__(
        self, tags: Tags, limit: float, windows: Windows, longest_ms: int, now_ms: float
    ) -> None:
        """No delay is longer than `longest_ms`."""
        super().__init__(tags, limit, now_ms)
        self._windows = windows
        self._longest_ms = longest_ms
        self._used: float = 0
        self._recent = RecentRate(now_ms / 1000, windows.count * windows.length_ms / 1000)
        self._at_ms = now_ms
        self._half_ms = max(1, windows.count - 1) * windows.length_ms / 2
        self._let_come(limit)
        self._leave(self._most, now_ms)

    def set_limit(self, limit: float, now_ms: float) -> None:
        """Let so much come from now on. What is left stays, and what is owed: but under a lower
        limit it counts no longer than all windows, or than it would have without the change. Who
        could use all at once can do so after it.
        """
        super().set_limit(limit, now_ms)
        per_ms, most = self._per_ms, self._most
        left = self._left + (now_ms - self._at_ms) * per_ms
        self._at_ms = now_ms
        self._let_come(limit)
        if left >= most:
            left = self._most
        elif left < 0 and self._per_ms < per_ms:
            longest_ms = max(self._windows.count * self._windows.length_ms, -left / per_ms)
            left = max(left, -longest_ms * self._per_ms)
        self._leave(left, now_ms)

    def _leave(self, left: float, now_ms: float) -> None:
        """Let this be left, as if it came now."""
        self._left = left
        self._half_since_ms = now_ms
        # The least that was left in this half of the windows, and in the one before it: so much is
        # older than they are, since what came last is used first.
        self._least = self._least_before = left
        self._lost = 0.0  # as it was too old; with it there would be so much more

    def _let_come(self, limit: float) -> None:
        self._per_ms = min(limit, _MOST_PER_S) / 1000
        self._most = self._per_ms * 2 * self._half_ms

    def use(self, amount: float, now_ms: float) -> int:
        """Count what is used; returns for how many milliseconds its client has to pause."""
        self.used_ms = now_ms
        self._used += amount
        left = self._left + (now_ms - self._at_ms) * self._per_ms
        self._at_ms = now_ms
        beyond = left - self._most
        if beyond > 0:  # the oldest has no room
            left = self._most
            self._least -= beyond
            self._least_before -= beyond
        if now_ms - self._half_since_ms >= self._half_ms:
            left -= self._begin_half(left, now_ms)
        if self._lost:
            self._lost = min(self._lost, self._most - left)
        self._left = left = left - amount
        self._least = min(self._least, left)
        return 0 if left >= 0 else self._pause_ms(now_ms)

    def take_back(self, amount: float, now_ms: float) -> None:
        """Count less: it was not used after all."""
        self.use(-amount, now_ms)

    def is_unused(self, now_ms: float) -> bool:
        """Whether as good as nothing was used of what may be used at once, if nothing of it grew
        old: a client that waits for all of it would else wait for ever beside another one.
        """
        left = self._left + self._lost + (now_ms - self._at_ms) * self._per_ms
        return left >= _AS_GOOD_AS_ALL * self._most

    def measured(self, now_ms: float) -> float:
        """How much is used in a second."""
        return self._recent.at(now_ms / 1000, self._used)

    @property
    def most_at_once(self) -> float:
        """How much may be used at once after a pause, without another one."""
        return self._most

    def worth_ms(self, amount: float) -> int:
        """The time in which so much may be used, if the limit is above 0."""
        return rounded_ms(amount * 1000 / self.limit)

    def _begin_half(self, left: float, now_ms: float) -> float:
        """How much is lost, as it is older than both halves that are over."""
        old = self._least
        if now_ms - self._half_since_ms < 2 * self._half_ms:
            old = min(old, self._least_before)
        lost = max(0.0, old)
        self._lost += lost
        self._least_before, self._least = self._least - lost, left - lost
        self._half_since_ms = now_ms
        return lost

    def _pause_ms(self, now_ms: float) -> int:
        if self._per_ms <= 0:
            self._left = 0
            return self.throttled(self._windows.count * self._windows.length_ms, now_ms)
        delay_ms = rounded_ms(-self._left / self._per_ms)
        if delay_ms > self._longest_ms:
            delay_ms = self._longest_ms
            self._left = max(self._left, -self._most)  # nobody pauses for it, so it is forgotten
        return self.throttled(delay_ms, now_ms) if delay_ms else 0


class MutationQuota(Quota):
    """A limit of the changes that a controller makes for clients, in tokens of a bucket."""

    __slots__ = ("_bucket", "_made")

    def __init__(self, tags: Tags, limit: float, windows: Windows, now_ms: float) -> None:
        super().__init__(tags, limit, now_ms)
        self._bucket = TokenBucket(windows, limit, now_ms)
        self._made = SampledRate(windows)

    def set_limit(self, limit: float, now_ms: float) -> None:
        """Let tokens come at another rate; those that are there stay."""
        super().set_limit(limit, now_ms)
        self._bucket.set_limit(limit)

    def take(self, changes: float, now_ms: float) -> int:
        """Make changes whatever there is; returns for how long their client has to pause."""
        self.used_ms = now_ms
        self._take(changes, now_ms)
        return self._pause_ms(now_ms)

    def take_if_open(self, changes: float, now_ms: float) -> int:
        """Make changes if nothing is owed; returns 0 then, else for how long something is."""
        self.used_ms = now_ms
        delay_ms = self._pause_ms(now_ms)
        if not delay_ms:
            self._take(changes, now_ms)
        return delay_ms

    def measured(self, now_ms: float) -> float:
        """How many changes may be made now."""
        return self._bucket.tokens(now_ms)

    def made_per_s(self, now_ms: float) -> float:
        """How many changes were made in a second, over all windows."""
        return self._made.per_s(now_ms)

    def _take(self, changes: float, now_ms: float) -> None:
        self._bucket.take(changes, now_ms)
        self._made.record(changes, now_ms)

    def _pause_ms(self, now_ms: float) -> int:
        delay_ms = self._bucket.throttle_ms(now_ms)
        return self.throttled(delay_ms, now_ms) if delay_ms else 0


AnyQuota = RateQuota | MutationQuota


class ClientAccount(NamedTuple):
    """The limits of one client, each with what is used of it; None where it has none."""

    produce: RateQuota | None = None  # bytes in a second
    fetch: RateQuota | None = None
    request: RateQuota | None = None  # hundredths of the loop's time
    mutations: MutationQuota | None = None


class LimitSource(Protocol):
    """Says which limits hold."""

    def has(self, kind: ClientQuotaType, /) -> bool:
        """Whether anybody has a limit of this kind."""
        ...

    def limit_of(self, kind: ClientQuotaType, user: str, client_id: str | None, /) -> Limit:
        """The limit of a client, and who shares it."""
        ...


class ClientQuotaManager:
    """Counts the use that clients make of the limits that hold for them."""

    def __init__(
        self, limits: LimitSource, windows: Windows, mutation_windows: Windows | None = None
    ) -> None:
        """`mutation_windows` are those of changes that a controller makes."""
        self._limits = limits
        self._windows = windows
        self._mutation_windows = mutation_windows or windows
        self._accounts: dict[tuple[str, str | None], ClientAccount] = {}
        self._kept: dict[tuple[ClientQuotaType, Tags], AnyQuota] = {}
        # Whoever holds one that is not kept any more shares it with others all the same.
        self._known: WeakValueDictionary[tuple[ClientQuotaType, Tags], AnyQuota] = (
            WeakValueDictionary()
        )
        self._looked_ms = -math.inf

    def settle(self) -> bool:
        """Let limits that have changed hold from now on. Returns whether anybody has one."""
        self._accounts.clear()
        return any(map(self.has, ClientQuotaType))

    def has(self, kind: ClientQuotaType) -> bool:
        """Whether anybody has a limit of this kind."""
        return self._limits.has(kind)

    def account(self, principal: str, client_id: str | None, now_ms: float) -> ClientAccount:
        """The limits of a client with this principal, such as `User:ann`."""
        account = self._accounts.get((principal, client_id))
        if account is None:
            account = self._find(principal, client_id, now_ms)
            if len(principal) + len(client_id or "") <= 2 * LONGEST_KEPT:
                if len(self._accounts) >= ACCOUNTS_MAX:
                    self._accounts.clear()
                self._accounts[principal, client_id] = account
        return account

    def quotas(self) -> Iterator[tuple[ClientQuotaType, AnyQuota]]:
        """All that is kept, for metrics."""
        for (kind, _), quota in self._kept.items():
            yield kind, quota

    def _limits_of(self, principal: str, client_id: str | None) -> Iterable[Limit]:
        """The limits of a client, in the order of kinds."""
        user = principal.partition(":")[2]
        return (self._limits.limit_of(kind, user, client_id) for kind in ClientQuotaType)

    def _find(self, principal: str, client_id: str | None, now_ms: float) -> ClientAccount:
        found: list[AnyQuota | None] = []
        limits = self._limits_of(principal, client_id)
        for kind, (limit, tags) in zip(ClientQuotaType, limits, strict=True):
            found.append(None if limit is None else self._quota(kind, limit, tags, now_ms))
        return ClientAccount(*found)  # type: ignore[arg-type]  # in the order of kinds

    def _quota(self, kind: ClientQuotaType, limit: float, tags: Tags, now_ms: float) -> AnyQuota:
        others = tuple((kept_name(name), kept_name(value)) for name, value in tags.others)
        tags = Tags(kept_name(tags.user), kept_name(tags.client_id), others)
        key = kind, tags
        quota = self._known.get(key)
        if quota is None:
            quota = self._known[key] = self._made(kind, limit, tags, now_ms)
        elif quota.limit != limit:
            quota.set_limit(limit, now_ms)
        if key not in self._kept:
            self._make_room(now_ms)
            self._kept[key] = quota
        return quota

    def _made(self, kind: ClientQuotaType, limit: float, tags: Tags, now_ms: float) -> AnyQuota:
        if kind is ClientQuotaType.CONTROLLER_MUTATION:
            return MutationQuota(tags, limit, self._mutation_windows, now_ms)
        longest_ms = LONGEST_THROTTLE_MS
        if kind is ClientQuotaType.REQUEST:
            longest_ms = self._windows.length_ms
        return RateQuota(tags, limit, self._windows, longest_ms, now_ms)

    def _make_room(self, now_ms: float) -> None:
        """Let go of what was not used for an hour, and if there are still too many, of those that
        were idle for longest.
        """
        is_full = len(self._kept) >= KEPT_MAX
        if not is_full and now_ms - self._looked_ms < _LOOK_MS:
            return
        self._looked_ms = now_ms
        old = [key for key, quota in self._kept.items() if now_ms - quota.used_ms >= IDLE_MS]
        if is_full and not old:
            by_use = sorted(self._kept, key=lambda key: self._kept[key].used_ms)
            old = by_use[: 1 + KEPT_MAX // _SHARE_LET_GO]
        for key in old:
            del self._kept[key]
        if old:
            self._accounts.clear()  # which would keep them


def kept_name(name: str) -> str:
    """The name, or what is kept in the place of a long one."""
    if len(name) <= LONGEST_KEPT:
        return name
    import hashlib  # OpenSSL's library, more than a MiB that most brokers do without

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: LONGEST_KEPT - len(digest)]}{digest}"
