"""A choice of the requests that somebody follows: as the query of a URL, and as a test of entries.

Pure. Conditions on who asks and for which API are decided before a request is answered, so that one
that nobody wants costs next to nothing; the others once it has been.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kbroker.errors import ErrorCode
from kbroker.tracing.name_patterns import NamePatterns
from kbroker.tracing.trace_entry import TraceEntry

PATH: Final = "/api/trace"
PATTERNS_MAX: Final = 50  # of one kind
_CHARACTERS_MAX: Final = 300  # of one pattern
_SLOWER: Final = "slower_than_ms"
_PATTERNS: Final = ("client_id", "address", "api", "topic", "code")
NAMES: Final = (*_PATTERNS, _SLOWER)
_NS_PER_MS: Final = 1_000_000
_ALL: Final = NamePatterns()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Patterns with `*` and `?`. Of one kind any has to fit, of each kind that is given one."""

    client_ids: NamePatterns = _ALL
    addresses: NamePatterns = _ALL  # of a host, or of host and port
    apis: NamePatterns = _ALL  # in lower case
    topics: NamePatterns = _ALL
    codes: NamePatterns = _ALL  # of names of error codes
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
            client_ids=NamePatterns(query.get("client_id", ())),
            addresses=NamePatterns(query.get("address", ())),
            apis=NamePatterns([each.lower() for each in query.get("api", ())]),
            topics=NamePatterns(query.get("topic", ())),
            codes=NamePatterns([_code_pattern(each) for each in query.get("code", ())]),
            slower_than_ns=_least_ns(query.get(_SLOWER, ())),
        )

    def may_match(self, api: str, client_id: str | None, host: str, port: int) -> bool:
        """Whether a request of this client may be wanted, once it is answered."""
        if not self.apis.fits(api.lower()) or not self.client_ids.fits(client_id or ""):
            return False
        return not self.addresses or any(
            map(self.addresses.fits, (host, f"{host}:{port}", f"[{host}]:{port}"))
        )

    def matches(self, entry: TraceEntry, topics: Collection[str], codes: Collection[str]) -> bool:
        """Whether an answered request is wanted that named these topics and had these codes, of
        which its entry keeps some. Who asked has been looked at.
        """
        return (
            entry.took_ns > self.slower_than_ns
            and (not self.topics or any(map(self.topics.fits, topics)))
            and (not self.codes or self._has_code(codes))
        )

    def _has_code(self, codes: Collection[str]) -> bool:
        # `*` is any error; answers without one have to be asked for by name.
        if not codes:
            return ErrorCode.NONE.name in self.codes.texts
        return any(map(self.codes.fits, codes))


def _code_pattern(text: str) -> str:
    """The pattern of an error code, which may be given as its number."""
    if text.lstrip("-").isascii() and text.lstrip("-").isdecimal():
        known = {str(code.value): code.name for code in ErrorCode}
        if text not in known:
            raise ValueError(f"there is no error code {text}")
        return known[text]
    pattern = text.upper()
    if not any(map(NamePatterns([pattern]).fits, ErrorCode.__members__)):
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
