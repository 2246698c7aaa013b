"""Python sources as trees, for the rules about them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "kbroker").rglob("*.py"))
PLAIN_BASES = {
    "ABC",
    "Enum",
    "Exception",
    "Generic",
    "IntEnum",
    "NamedTuple",
    "Protocol",
    "StrEnum",
}


def parsed(source: str) -> ast.Module:
    """The tree of a source.

    No garbage is collected meanwhile: Python 3.11 has one count of depth for all trees that it
    makes, and the log of a lost task's error has its traceback parsed (python/cpython#106905).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()


@cache
def trees_of_kbroker() -> Mapping[Path, ast.Module]:
    """Every module of kbroker, parsed once for all rules."""
    return {path: parsed(path.read_text(encoding="utf-8")) for path in MODULES}


@cache
def nodes_of_kbroker() -> Mapping[Path, list[ast.AST]]:
    """All nodes of each module: to walk through a tree takes longer than most rules about it."""
    return {path: list(ast.walk(tree)) for path, tree in trees_of_kbroker().items()}


def classes_that_override(nodes: Iterable[ast.AST]) -> set[str]:
    """Classes with a library's class among their ancestors."""
    bases = {node.name: node.bases for node in nodes if isinstance(node, ast.ClassDef)}
    found: set[str] = set()
    while more := {
        name
        for name, its_bases in bases.items()
        if name not in found
        and any(
            isinstance(base, ast.Attribute)
            or last_name(base) not in bases.keys() | PLAIN_BASES
            or last_name(base) in found
            for base in its_bases
        )
    }:
        found |= more
    return found


def last_name(node: ast.expr) -> str:
    """`b` of `a.b`, of `a.b(…)` and of `a.b[…]`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
