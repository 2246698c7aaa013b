"""The watches set on an ensemble, with their callbacks.

Law: a watch that was set fires, even when its connection or session ends: with every new connection
`renewals` lists the watches to set again, and since which transaction. kazoo forgets its watches
with the connection; this table does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kbroker.zk.tree import EventType, Watch

_DATA_EVENTS = frozenset({EventType.CREATED, EventType.DELETED, EventType.DATA_CHANGED})
_CHILD_EVENTS = frozenset({EventType.CHILDREN_CHANGED, EventType.DELETED})

DATA, EXISTS, CHILDREN = range(3)  # kinds of watches as the server keeps them


@dataclass(slots=True, eq=False)
class _Watched:
    kind: int
    callbacks: dict[Watch, None] = field(default_factory=dict)
    # None: this connection's server watches. Else all changes up to this one have been reported.
    told_zxid: int | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """Watches to set again, all up to date with one transaction: paths by kind."""

    zxid: int
    paths: tuple[list[str], list[str], list[str]]
    watched: dict[tuple[int, str], _Watched]

    def done(self, kind: int, path: str) -> None:
        """The server watches this path now."""
        self.watched[kind, path].told_zxid = None


class WatchTable:
    """All watches of one tree, by whole path."""

    def __init__(self) -> None:
        self._data: dict[str, _Watched] = {}
        self._children: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return len(self._data) + len(self._children)

    def add_data(self, path: str, callback: Watch, *, exists: bool) -> None:
        """The server watches a node, existing or not: an answer just said so."""
        watched = self._data.setdefault(path, _Watched(DATA))
        watched.kind = DATA if exists else EXISTS
        watched.callbacks[callback] = None

    def add_children(self, path: str, callback: Watch) -> None:
        """The server watches the children of a node."""
        self._children.setdefault(path, _Watched(CHILDREN)).callbacks[callback] = None

    def take(self, event_type: EventType, path: str) -> list[Watch]:
        """Take the callbacks for an event out of the table, each once."""
        callbacks: dict[Watch, None] = {}
        for types, table in ((_DATA_EVENTS, self._data), (_CHILD_EVENTS, self._children)):
            if event_type in types and (watched := table.pop(path, None)) is not None:
                callbacks.update(watched.callbacks)
        return list(callbacks)

    def disconnected(self, last_zxid: int) -> None:
        """The server's watches are gone; all changes up to `last_zxid` have been reported."""
        for table in (self._data, self._children):
            for watched in table.values():
                if watched.told_zxid is None:
                    watched.told_zxid = last_zxid

    def renewals(self) -> list[Renewal]:
        """List the watches that the server of a new connection should set."""
        found: dict[int, Renewal] = {}
        for table in (self._data, self._children):
            for path, watched in table.items():
                zxid = watched.told_zxid
                if zxid is not None:
                    renewal = found.setdefault(zxid, Renewal(zxid, ([], [], []), {}))
                    renewal.paths[watched.kind].append(path)
                    renewal.watched[watched.kind, path] = watched
        return list(found.values())

    def clear(self) -> None:
        """Drop all watches without calling anybody."""
        self._data.clear()
        self._children.clear()
