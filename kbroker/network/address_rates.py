"""AddressRates: how many connections may come from an address in a second (KIP-612).

Pure. As in Kafka, a connection beyond the rate is taken all the same and closed after a pause, so
that a client which comes again at once does not wear the broker down; it counts nowhere.
"""

from __future__ import annotations

from kbroker.quotas.rate import SampledRate, Windows, rounded_ms

ADDRESSES_MAX = 10_000  # whose rates are known; of more, the ones that came last
_FORGOTTEN_AFTER_MS = 3_600_000.0


class AddressRates:
    """The limits of addresses, and the connections that came from them. False without limits.
    Times are monotonic milliseconds.
    """

    __slots__ = ("_default", "_limits", "_rates", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._default: int | None = None
        self._limits: dict[str, int] = {}
        self._rates: dict[str, tuple[SampledRate, float]] = {}  # with the time of the last look

    def __bool__(self) -> bool:
        return self._default is not None or bool(self._limits)

    @property
    def known(self) -> list[str]:
        """The addresses whose rates are known, the one that came last at the end."""
        return list(self._rates)

    def put(self, address: str | None, per_s: int | None) -> None:
        """Put a limit in force for an address, or for all that have none (None); None takes it
        away.
        """
        if address is None:
            self._default = per_s
        elif per_s is None:
            self._limits.pop(address, None)
        else:
            self._limits[address] = per_s
        if not self:
            self._rates.clear()

    def throttle_ms(self, address: str, now_ms: float) -> int:
        """Count a connection; 0, or for how long it pauses before it is closed, uncounted."""
        limit = self._limits.get(address, self._default)
        if limit is None:
            return 0
        rate = self._rate_of(address, now_ms)
        rate.record(1, now_ms)
        per_s = rate.per_s(now_ms)
        if per_s <= limit:
            return 0
        rate.record(-1, now_ms)
        if not limit:
            return self._windows.length_ms
        pause_ms = (per_s - limit) / limit * rate.window_ms(now_ms)
        return max(1, min(self._windows.length_ms, rounded_ms(pause_ms)))

    def _rate_of(self, address: str, now_ms: float) -> SampledRate:
        known = self._rates.pop(address, None)
        rate = known[0] if known is not None else SampledRate(self._windows)
        self._rates[address] = rate, now_ms
        while len(self._rates) > ADDRESSES_MAX:
            del self._rates[next(iter(self._rates))]
        self._forget_one(now_ms)
        return rate

    def _forget_one(self, now_ms: float) -> None:
        first = next(iter(self._rates))  # the one that came last of all
        if now_ms - self._rates[first][1] >= _FORGOTTEN_AFTER_MS:
            del self._rates[first]
