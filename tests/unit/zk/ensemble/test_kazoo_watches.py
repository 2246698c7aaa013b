"""The table of watches outlives connections, and tells each callback once."""

from __future__ import annotations

from kbroker.zk.ensemble.kazoo_watches import CHILDREN, DATA, EXISTS, WatchTable
from kbroker.zk.tree import EventType, WatchEvent


def nobody(_event: WatchEvent) -> None: ...


def somebody(_event: WatchEvent) -> None: ...


def test_an_event_takes_those_it_concerns_each_once() -> None:
    table = WatchTable()
    table.add_data("/a", nobody, exists=True)
    table.add_data("/a", nobody, exists=True)
    table.add_children("/a", nobody)
    table.add_children("/a", somebody)
    table.add_data("/b", somebody, exists=False)

    assert table.take(EventType.CHILDREN_CHANGED, "/b") == []
    assert table.take(EventType.CREATED, "/b") == [somebody]
    assert table.take(EventType.DELETED, "/a") == [nobody, somebody]
    assert table.take(EventType.DELETED, "/a") == []
    assert len(table) == 0


def test_a_connected_table_has_nothing_to_renew() -> None:
    table = WatchTable()
    table.add_data("/a", nobody, exists=True)

    assert table.renewals() == []


def test_what_was_told_before_the_connection_broke_is_where_the_next_begins() -> None:
    table = WatchTable()
    table.add_data("/a", nobody, exists=True)
    table.add_data("/b", nobody, exists=False)
    table.add_children("/c", nobody)

    table.disconnected(7)

    (renewal,) = table.renewals()
    assert (renewal.zxid, renewal.paths) == (7, (["/a"], ["/b"], ["/c"]))


def test_a_watch_that_was_not_set_again_keeps_its_beginning() -> None:
    table = WatchTable()
    table.add_data("/a", nobody, exists=True)
    table.add_data("/b", nobody, exists=True)
    table.disconnected(7)
    (renewal,) = table.renewals()
    renewal.done(DATA, "/a")

    table.disconnected(9)

    assert [(r.zxid, r.paths[DATA]) for r in table.renewals()] == [(9, ["/a"]), (7, ["/b"])]


def test_a_node_that_came_is_watched_as_one_that_is_there() -> None:
    table = WatchTable()
    table.add_data("/a", nobody, exists=False)
    table.take(EventType.CREATED, "/a")
    table.add_data("/a", nobody, exists=True)
    table.add_children("/a", nobody)
    table.disconnected(3)

    (renewal,) = table.renewals()

    assert renewal.paths == (["/a"], [], ["/a"])
    assert set(renewal.watched) == {(DATA, "/a"), (CHILDREN, "/a")}
    assert (EXISTS, "/a") not in renewal.watched


def test_a_cleared_table_tells_nobody() -> None:
    table = WatchTable()
    table.add_data("/a", nobody, exists=True)
    table.clear()

    assert table.take(EventType.DELETED, "/a") == []
