"""Python sources as trees, for the rules about them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "kbroker").rglob("*.py"))


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
