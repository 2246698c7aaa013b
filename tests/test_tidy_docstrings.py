"""A docstring says something that the name does not, and stands wherever there is something to say.

Demanded of public classes, functions and methods, except trivial ones: properties, bodies of one
return, raise or call, methods that override one of a base class, and the structs of messages, whose
modules say what they are. Anything may have one that says something.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.source_trees import (
    ROOT,
    classes_that_override,
    last_name,
    nodes_of_kbroker,
    parsed,
    trees_of_kbroker,
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

PRONOUNS = {
    "he", "it", "its", "she", "that", "their", "there", "these", "they", "this", "those", "we",
    "what", "which", "who", "whom", "whose", "yes", "you",
}  # fmt: skip
MIN_WORDS = 4


@pytest.fixture(scope="module")
def trees() -> Mapping[Path, ast.Module]:
    """The modules that have docstrings."""
    others = [*(ROOT / "pyspark_kbroker").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return {**trees_of_kbroker(), **{path: parsed(path.read_text()) for path in others}}


def documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of the module and of all in it that has one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Definition) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "the module"), text


def emptiness(text: str) -> str | None:
    """Say why a docstring says nothing, or begins in the wrong place; None if it is fine."""
    first = re.match(r"[A-Za-z']*", text)[0].lower()
    if first in PRONOUNS:
        return f"begins with {first!r}: name what is meant"
    if re.match(r"One (of|that|which|who|whose)\b", text):
        return "begins with 'One': name what is meant"
    if re.match(r"(As|See) `", text):
        return "points elsewhere: leave it out, or say what differs"
    if len(text.split()) < MIN_WORDS:
        return "has at most three words: leave it out, or say more than the name"
    return None


def test_a_docstring_says_something(trees: Mapping[Path, ast.Module]) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name} {why}"
        for path, tree in trees.items()
        if path.is_relative_to(ROOT / "kbroker")
        for name, text in documented(tree)
        if (why := emptiness(text))
    ]
    assert found == []


def test_everything_public_that_is_not_trivial_has_a_docstring(
    trees: Mapping[Path, ast.Module],
) -> None:
    inherited = inherited_names()
    silent = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees.items()
        for name in without_docstring(
            tree.body, inherited, is_message="messages" in path.parts, place=""
        )
    ]
    assert silent == []


def inherited_names() -> dict[str, set[str] | None]:
    """By class: the methods that its ancestors in kbroker have; None with an ancestor elsewhere."""
    nodes = [node for its in nodes_of_kbroker().values() for node in its]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for node in classes:
        own.setdefault(node.name, set()).update(
            each.name for each in node.body if isinstance(each, Definition)
        )
        bases.setdefault(node.name, set()).update(map(last_name, node.bases))
    overriding = classes_that_override(nodes)

    def of_ancestors(name: str) -> set[str]:
        near = bases.get(name, set()) - {name}
        return set().union(*(own.get(base, set()) | of_ancestors(base) for base in near))

    return {name: None if name in overriding else of_ancestors(name) for name in own}


def without_docstring(
    body: list[ast.stmt],
    inherited: Mapping[str, set[str] | None],
    *,
    is_message: bool,
    place: str,
) -> Iterator[str]:
    """Yield the public names of a body that should have a docstring and have none."""
    overridden = inherited.get(place.rpartition(".")[2], set()) if place else set()
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        name = f"{place}.{node.name}".lstrip(".")
        if isinstance(node, ast.ClassDef):
            if not is_message and not ast.get_docstring(node):
                yield name
            yield from without_docstring(node.body, inherited, is_message=is_message, place=name)
        elif (
            not ast.get_docstring(node)
            and not is_trivial(node)
            and overridden is not None
            and node.name not in overridden
        ):
            yield name


def is_trivial(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {last_name(each) for each in node.decorator_list}
    if decorators & {"property", "cached_property", "setter", "overload"}:
        return True
    (first, *more) = node.body
    return not more and isinstance(first, ast.Return | ast.Raise | ast.Pass | ast.Expr)


@pytest.mark.parametrize(
    ("text", "is_empty"),
    [
        ("Its log.", True),
        ("Those that are left in the end.", True),
        ("One of many that come and go.", True),
        ("As `Log.append`, for a follower's records.", True),
        ("One partition's candidate, with the epoch it asks for.", False),
        ("The offset after the last record.", False),
    ],
)
def test_a_docstring_that_says_nothing_is_found(text: str, is_empty: bool) -> None:
    assert bool(emptiness(text)) is is_empty


def test_a_name_without_docstring_is_found_unless_it_is_trivial() -> None:
    source = """
def silent(x):
    y = x
    return y

def short(x): return x

class Heir(Base):
    def overridden(self): a = 1
    def new(self): b = 1
    @property
    def named(self):
        c = 1
        return c
    def _own(self): d = 1

class Library(asyncio.Protocol):
    '''Something said.'''
    def data_received(self): e = 1
"""
    found = without_docstring(
        parsed(source).body,
        {"Heir": {"overridden"}, "Library": None},
        is_message=False,
        place="",
    )
    assert list(found) == ["silent", "Heir", "Heir.new"]
