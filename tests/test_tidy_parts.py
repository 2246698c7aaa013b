"""The parts of a log keep their state to themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.source_trees import ROOT, nodes_of_kbroker, parsed

PARTITION = ROOT / "kbroker/log/partition"
# How a log and its parts are called, whoever holds them.
OF_A_LOG = {
    "flushes",
    "future",
    "leader_epoch_cache",
    "log",
    "offsets",
    "partition_directory",
    "producer_state",
    "producers",
    "unsynced",
}


def set_from_outside(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """(whose, attribute) of each that is set on another object than `self`."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "?")
            if name != "self":
                yield name.lstrip("_"), node.attr


def test_nobody_sets_an_attribute_of_a_log_or_of_one_of_its_parts_from_outside() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), *each)
        for path, nodes in nodes_of_kbroker().items()
        for each in set_from_outside(nodes)
        if each[0] in OF_A_LOG or path.is_relative_to(PARTITION)
    }
    assert found == set()


def test_what_is_set_from_outside_is_found() -> None:
    source = "self.log._offsets.end = 1\nlog.cuts += 1\nself.offset = 2\nself._log.a, b = c"

    found = set(set_from_outside(ast.walk(parsed(source))))

    assert found == {("offsets", "end"), ("log", "cuts"), ("log", "a")}
