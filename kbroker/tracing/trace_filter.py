"""A choice of the requests that somebody follows: as the query of a URL, and as a test of entries.

Pure. Conditions on who asks and for which API are decided before a request is answered, so that one
that nobody wants costs next to nothing; the others once it has been.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from kbroker.errors import ErrorCode
from kbroker.tracing.trace_entry import TraceEntry

PATH: Final = "/api/trace"
PATTERNS_MAX: Final = 50  # of one filter
_CHARACTERS_MAX: Final = 300  # of one pattern
_SLOWER: Final = "slower_than_ms"
_PATTERNS: Final = ("client_id", "address", "api", "topic", "code")
NAMES: Final = (*_PATTERNS, _SLOWER)
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Patterns with `*` and `?`. Of one kind any has to fit, of each kind that is given one."""

    client_ids: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()  # of a host, or of host and port
    apis: tuple[str, ...] = ()  # in lower case
    topics: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()  # of names of error codes
    slower_than_ns: int = -1

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> TraceFilter:
        """Read a filter. Raises ValueError, with a sentence, for one that says nothing sensible.

        >>> TraceFilter.of({"code": ["3"], "slower_than_ms": ["1.5"]}).slower_than_ns
        1500000
        """
        for name, texts in query.items():
            if name not in NAMES:
                raise ValueError(f"no such filter: {name[:100]!a}; there are {', '.join(NAMES)}")
            if len(texts) > PATTERNS_MAX or any(len(each) > _CHARACTERS_MAX for each in texts):
                raise ValueError(
                    f"{name}: at most {PATTERNS_MAX} patterns of {_CHARACTERS_MAX} characters"
                )
        return cls(
            client_ids=tuple(query.get("client_id", ())),
            addresses=tuple(query.get("address", ())),
            apis=tuple(each.lower() for each in query.get("api", ())),
            topics=tuple(query.get("topic", ())),
            codes=tuple(_code_pattern(each) for each in query.get("code", ())),
            slower_than_ns=_least_ns(query.get(_SLOWER, ())),
        )

    def may_match(self, api: str, client_id: str | None, host: str, port: int) -> bool:
        """Whether a request of this client may be wanted, once it is answered."""
        if self.apis and not _fits(api.lower(), self.apis):
            return False
        if self.client_ids and not _fits(client_id or "", self.client_ids):
            return False
        return not self.addresses or any(
            _fits(each, self.addresses) for each in (host, f"{host}:{port}", f"[{host}]:{port}")
        )

    def matches(self, entry: TraceEntry, topics: Collection[str], codes: Collection[str]) -> bool:
        """Whether an answered request is wanted that named these topics and had these codes, of
        which its entry keeps some. Who asked has been looked at.
        """
        return (
            entry.took_ns > self.slower_than_ns
            and (not self.topics or any(_fits(topic, self.topics) for topic in topics))
            and (not self.codes or self._has_code(codes))
        )

    def _has_code(self, codes: Collection[str]) -> bool:
        # `*` is any error; answers without one have to be asked for by name.
        if not codes:
            return ErrorCode.NONE.name in self.codes
        return any(_fits(code, self.codes) for code in codes)


def _fits(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _code_pattern(text: str) -> str:
    """The pattern of an error code, which may be given as its number."""
    if text.lstrip("-").isascii() and text.lstrip("-").isdecimal():
        try:
            return ErrorCode(int(text)).name
        except ValueError:
            raise ValueError(f"there is no error code {text}") from None
    pattern = text.upper()
    if not any(_fits(code.name, [pattern]) for code in ErrorCode):
        raise ValueError(f"there is no error code {text[:100]!a}")
    return pattern


def _least_ns(texts: Sequence[str]) -> int:
    if not texts:
        return -1
    try:
        least_ms = float(texts[-1])
    except ValueError:
        least_ms = -1.0
    if not 0 <= least_ms < float("inf"):
        raise ValueError(f"{_SLOWER} is a number of milliseconds, not {texts[-1][:100]!a}")
    return int(least_ms * _NS_PER_MS)
