"""One answered request, as a person sees it who follows what a broker is asked.

Pure. Law: an entry has names, sizes, times and codes, and nothing else of what was sent: no
records, no values of settings, nothing that proves who somebody is. It is bounded, whatever clients
send: names are cut, and only the first ones are kept beside their count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kbroker.events.event import cut, quoted

FEW: Final = 5  # names of one kind that an entry keeps
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """The names that a request asked for: the first few of each kind, and how many there were."""

    topics: tuple[str, ...] = ()
    topic_count: int = 0
    partitions: tuple[str, ...] = ()  # such as "orders-0"
    partition_count: int = 0
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Name what was asked for, inert and in one line; empty if nothing has a name.

        >>> AskedFor(partitions=("orders-0", "orders-1"), partition_count=9).sentence()
        "'orders-0', 'orders-1' and 7 more"
        """
        named = self.partitions, self.partition_count
        if not self.partitions:
            named = self.topics, self.topic_count
        texts = [
            _listed("group ", self.groups, len(self.groups)),
            _listed("transactional id ", self.transactional_ids, len(self.transactional_ids)),
            _listed("", *named),
        ]
        return ", ".join(filter(None, texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """An error code of an answer, by name, and what it is about; "" is all that was asked."""

    code: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The client at the other end of a connection, with texts that may be kept."""

    client_id: str | None
    host: str
    port: int
    software: str  # with its version, as the client calls itself
    principal: str
    listener: str
    is_forwarded: bool = False  # another broker passed the request on

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """One request and its answer. `at_ms` is when it had come whole, as Unix time; `took_ns` lasts
    until its answer was handed to the connection; sizes are without the four bytes before a frame.
    """

    at_ms: int
    took_ns: int
    api: str
    version: int
    correlation_id: int
    asker: Asker
    asked: AskedFor
    request_bytes: int
    answer_bytes: int | None  # None: there was no answer, as with acks=0
    is_closed: bool = False  # the connection was closed instead of an answer
    codes: tuple[Coded, ...] = ()
    code_count: int = 0

    @property
    def took_ms(self) -> float:
        return self.took_ns / _NS_PER_MS

    def value(self) -> Mapping[str, Any]:
        """Return the entry as JSON has it; names, counts and marks that are empty are absent."""
        asker, asked = self.asker, self.asked
        known = {
            "software": asker.software,
            "principal": asker.principal,
            "listener": asker.listener,
            "forwarded": asker.is_forwarded,
            "topics": asked.topics,
            "topic_count": asked.topic_count,
            "partitions": asked.partitions,
            "partition_count": asked.partition_count,
            "groups": asked.groups,
            "transactional_ids": asked.transactional_ids,
            "codes": [_coded(each) for each in self.codes],
            "code_count": self.code_count,
            "closed": self.is_closed,
        }
        return {
            "at_ms": self.at_ms,
            "took_ms": round(self.took_ms, 3),
            "api": self.api,
            "version": self.version,
            "correlation_id": self.correlation_id,
            "client_id": asker.client_id,
            "address": asker.address,
            "request_bytes": self.request_bytes,
            "answer_bytes": self.answer_bytes,
            **{name: value for name, value in known.items() if value},
        }


def kept(names: Collection[str]) -> tuple[str, ...]:
    """Return the first few of some names, which an entry may keep."""
    return tuple(cut(name) for name, _ in zip(names, range(FEW), strict=False))


def _coded(coded: Coded) -> Mapping[str, str]:
    return {"code": coded.code, "about": coded.about} if coded.about else {"code": coded.code}


def _listed(kind: str, names: tuple[str, ...], count: int) -> str:
    if not names:
        return ""
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return kind + ", ".join(map(quoted, names)) + more
